#!/bin/sh
# advise: on=RTX 4090, 64GB RAM, linux
# advise: version=0.33.0
exec vllm serve Qwen/Qwen3-8B --max-model-len 8192 --swap-space 4 --host 127.0.0.1 --port 8000
