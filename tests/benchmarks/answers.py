"""Answers to 1,000 random questions, recorded, and compared with an earlier recording byte by byte.

    python tests/benchmarks/answers.py record FILE [COUNT] [--files FOLDER]
    python tests/benchmarks/answers.py compare BEFORE AFTER

A change that is meant to change no answer is tried so: record with the tree before it, record with the tree after it,
compare. The questions come from a fixed seed and from names of the catalogue: a fifth each of recommend, explain,
estimate, check and hardware, text and JSON in turn. `--files FOLDER` takes files of check from a folder; without it
they are commands made here.
"""

from __future__ import annotations

import contextlib
import io
import json
import random
import sys
import tempfile
from pathlib import Path

from advisor.catalog import catalog
from advisor.cli.main import run_command_line

SEED = 20261122
USES = ("chat", "rag", "agent", "code", "batch", "voice", "embeddings", "edge", "develop")
FORMATS = (None, None, "q4", "Q4_K_M", "Q8_0", "FP8", "AWQ", "BF16", "int4")
MACHINES = ("", ", 32GB RAM", ", 128GB RAM, linux", ", 64GB RAM, windows", ", driver 550.54, 256GB RAM")
PLAIN = (
    "cpu, 64GB RAM, linux, 16 cores",
    "M3 Max 64GB",
    "M1 8GB",
    "Ryzen AI Max+ 395 128GB",
    "1x GB10",
    "cpu, 8GB RAM",
)


class Questions:
    """Command lines of one seed; the same for every tree with the same names in its catalogue."""

    def __init__(self, folder: Path | None, place: Path) -> None:
        rules = catalog()
        self.rng = random.Random(SEED)
        self.place = place
        self.cards = sorted(a.id for a in rules.accelerators().values() if a.memory_bytes)
        self.models = sorted(m.id for m in rules.model_index() if not m.stub)
        self.engines = sorted(e.id for e in rules.engines().values() if e.kind == "engine")
        self.files = sorted(p for p in folder.rglob("*") if p.is_file()) if folder else []

    def hardware(self) -> str:
        """A machine in words."""
        if self.rng.random() < 0.15:
            return self.rng.choice(PLAIN)
        return f"{self.rng.choice((1, 1, 1, 2, 3, 4, 8))}x {self.rng.choice(self.cards)}{self.rng.choice(MACHINES)}"

    def common(self) -> list[str]:
        """Options of recommend and explain alike."""
        words = ["--concurrency", str(self.rng.choice((1, 1, 2, 8, 32, 200)))]
        quant = self.rng.choice(FORMATS)
        words += ["--quant", quant] if quant else []
        words += ["--context", self.rng.choice(("4096", "16k", "100k"))] if self.rng.random() < 0.5 else []
        words += ["--engine", self.rng.choice(self.engines)] if self.rng.random() < 0.3 else []
        return words

    def recommend(self) -> list[str]:
        """One question of recommend."""
        words = ["recommend", "--on", self.hardware(), *self.common(), "--use-case", self.rng.choice(USES)]
        words += ["--model", self.rng.choice(self.models)] if self.rng.random() < 0.8 else []
        priority = self.rng.choice((None, "ease", "throughput", "latency"))
        return words + (["--priority", priority] if priority else [])

    def explain(self) -> list[str]:
        """One question of explain."""
        words = ["explain", "--model", self.rng.choice(self.models), *self.common()]
        return words + (["--on", self.hardware()] if self.rng.random() < 0.7 else [])

    def estimate(self) -> list[str]:
        """One line of the batch entry point."""
        line = {
            "model": self.rng.choice(self.models),
            "engine": self.rng.choice(self.engines),
            "hardware": self.hardware(),
            "context_length": self.rng.choice((None, 4096, 32768)),
            "sequences": self.rng.choice((1, 4, 64)),
            "quantization": self.rng.choice(FORMATS),
            "workload": {"concurrency": self.rng.choice((1, 16))},
        }
        path = self.place / "lines.jsonl"
        path.write_text(json.dumps(line) + "\n")
        return ["estimate", "--jsonl", str(path)]

    def check(self) -> list[str]:
        """One file of check."""
        on = ["--on", self.hardware()] if self.rng.random() < 0.6 else []
        if self.files:
            return ["check", str(self.rng.choice(self.files)), *on]
        model, share = self.rng.choice(self.models), self.rng.choice(("0.5", "0.9", "0.98", "1.2"))
        body = {
            "vllm": f"vllm serve {model} --gpu-memory-utilization {share} -tp {self.rng.choice((1, 2, 3, 8))}",
            "sglang": f"python -m sglang.launch_server --model-path {model} --tp-size 2 --mem-fraction-static {share}",
            "llama": f"llama-server -hf {model} -c {self.rng.choice((0, 4096, 131072))} -ngl 99 --cache-type-k q8_0",
        }[self.rng.choice(("vllm", "sglang", "llama"))]
        path = self.place / "start.sh"
        path.write_text(f"#!/bin/sh\n{body}\n")
        return ["check", str(path), *on]

    def hardware_question(self) -> list[str]:
        """One question of hardware."""
        money = self.rng.choice((["--budget", "3000EUR"], ["--budget", "20000EUR"], ["--rent", "1500EUR/month"]))
        users = ["--users", str(self.rng.choice((1, 4, 32)))]
        quant = self.rng.choice(FORMATS)
        return [
            "hardware",
            "--model",
            self.rng.choice(self.models),
            *money,
            *users,
            *(["--quant", quant] if quant else []),
        ]

    def next(self, number: int) -> list[str]:
        """The command line of question `number`."""
        kinds = (self.recommend, self.explain, self.estimate, self.check, self.hardware_question)
        words = kinds[number % len(kinds)]()
        json_too = words[0] != "estimate" and (number // len(kinds)) % 2
        return [*words, "--json"] if json_too else words


def answer(words: list[str]) -> dict[str, object]:
    """Exit status, standard output and standard error of one command line."""
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8") for _ in range(2))
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        status = run_command_line(words)
    texts = []
    for stream in (out, err):
        stream.flush()
        texts.append(stream.buffer.getvalue().decode())  # type: ignore[attr-defined]
    return {"words": words, "status": status, "out": texts[0], "err": texts[1]}


def record(path: Path, count: int, folder: Path | None) -> None:
    """Write the answers to `count` questions, one JSON object a line."""
    with tempfile.TemporaryDirectory() as name, path.open("w") as to:
        questions = Questions(folder, Path(name))
        for number in range(count):
            told = answer(questions.next(number))
            to.write(json.dumps(told).replace(name, "PLACE") + "\n")


def compare(before: Path, after: Path) -> int:
    """Print every question whose answer differs; the number of them."""
    pairs = list(zip(before.read_text().splitlines(), after.read_text().splitlines(), strict=True))
    different = 0
    for old_line, new_line in pairs:
        old, new = json.loads(old_line), json.loads(new_line)
        if old == new:
            continue
        different += 1
        print(f"--- {' '.join(old['words'])}: exit {old['status']} -> {new['status']}")
        for part in ("out", "err"):
            was, now = old[part].splitlines(), new[part].splitlines()
            for line in [f"  - {x}" for x in was if x not in now][:6] + [f"  + {x}" for x in now if x not in was][:6]:
                print(line[:400])
    print(f"{different} of {len(pairs)} answers differ")
    return different


def main(words: list[str]) -> int:
    """Read the command line of this tool."""
    if len(words) == 3 and words[0] == "compare":
        return 1 if compare(Path(words[1]), Path(words[2])) else 0
    if len(words) >= 2 and words[0] == "record":
        folder = Path(words[words.index("--files") + 1]) if "--files" in words else None
        numbers = [w for w in words[2:] if w.isdigit()]
        record(Path(words[1]), int(numbers[0]) if numbers else 1000, folder)
        return 0
    print(__doc__)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
