#!/bin/sh
# advise: on=RTX 4090, 64GB RAM, linux
exec vllm serve meta-llama/Llama-3.1-8B-Instruct --max-model-len 131072 --port 8000 --host 127.0.0.1
