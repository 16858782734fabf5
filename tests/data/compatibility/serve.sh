vllm serve Qwen/Qwen3-8B --max-model-len 8192 --api-key $KEY
vllm serve Qwen/Qwen3-14B --max-model-len 100000 --host 0.0.0.0
