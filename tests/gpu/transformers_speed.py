"""Speed and memory of Transformers on the GPU of this machine: models of true shapes, with random weights.

    python tests/gpu/transformers_speed.py CONFIGS OUT

CONFIGS holds a folder with config.json per model (tests/planner/hf_configs.py makes them); OUT/transformers.jsonl gets
a line a reading. 16-bit weights, `generate` without sampling; memory in MiB by NVML and by PyTorch's allocator.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from llama_speed import used_mib

STEPS = 32
LONGEST = 60  # seconds of one model
PROMPTS = ((1, 512), (1, 2048), (8, 512))  # sequences, tokens of each


def measure(folder: Path) -> Iterator[dict[str, Any]]:
    """Readings of one model."""
    memory = {"before": used_mib()}
    import torch
    import transformers

    torch.zeros(1, device="cuda")
    torch.cuda.synchronize()
    memory["context"] = used_mib()
    config = transformers.AutoConfig.from_pretrained(folder)
    torch.set_default_dtype(torch.bfloat16)
    with torch.device("cuda"):
        model = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16).eval()
    memory |= {"model": used_mib(), "weights_allocated": torch.cuda.memory_allocated() / 2**20}
    versions = {"torch": torch.__version__, "transformers": transformers.__version__}
    vocabulary = int(getattr(config, "vocab_size", 0) or config.text_config.vocab_size)
    with torch.inference_mode():
        for sequences, count in PROMPTS:
            torch.cuda.reset_peak_memory_stats()
            ids = torch.randint(10, vocabulary - 10, (sequences, count), device="cuda")
            seconds = {}
            for tokens in (1, 1, STEPS + 1):
                torch.cuda.synchronize()
                start = time.perf_counter()
                model.generate(
                    ids, attention_mask=torch.ones_like(ids), max_new_tokens=tokens, min_new_tokens=tokens,
                    do_sample=False, pad_token_id=0,
                )  # fmt: skip
                torch.cuda.synchronize()
                seconds[tokens] = time.perf_counter() - start
            yield {
                "what": "generate", "sequences": sequences, "prompt": count,
                "prefill_rate": round(sequences * count / seconds[1], 2),
                "decode_rate": round(sequences * STEPS / (seconds[STEPS + 1] - seconds[1]), 2),
                "peak_allocated": round(torch.cuda.max_memory_allocated() / 2**20, 1),
                "reserved": round(torch.cuda.memory_reserved() / 2**20, 1), "used": round(used_mib(), 1), **versions,
            }  # fmt: skip
    yield {"what": "memory", **{k: round(v, 1) for k, v in memory.items()}, **versions}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("configs", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--one", type=Path)
    words = parser.parse_args()
    if words.one:
        for reading in measure(words.one):
            print(json.dumps(reading), flush=True)
        return
    with (words.out / "transformers.jsonl").open("a", encoding="utf-8") as out:
        for folder in sorted(x for x in words.configs.iterdir() if x.is_dir()):
            arguments = [sys.executable, __file__, str(words.configs), str(words.out), "--one", str(folder)]
            try:
                got = subprocess.run(arguments, capture_output=True, text=True, timeout=LONGEST)
                said, wrong = got.stdout, got.stderr[-300:] if got.returncode else ""
            except subprocess.TimeoutExpired as e:
                said, wrong = (e.stdout or b"").decode(), "timeout"
            print(folder.name, wrong, flush=True)
            for line in said.splitlines():
                if line.startswith("{"):
                    print("   ", line, flush=True)
                    out.write(json.dumps({"model": folder.name.replace("--", "/"), **json.loads(line)}) + "\n")
            out.flush()


if __name__ == "__main__":
    main()
