"""All operations by name."""

from __future__ import annotations

from typing import Any

from advisor.decision.types import USE_CASES
from advisor.operations import answers
from advisor.operations.types import Json, Operation


def _text(description: str, **more: Any) -> Json:
    return {"type": "string", "description": description, **more}


def _count(description: str, least: int = 1) -> Json:
    return {"type": "integer", "description": description, "minimum": least}


_MODEL = _text('Model: "70B", "llama3.1:8b", a hub id, or a .gguf file of the working folder')
_QUANTIZATION = _text("Weight format: q4, Q4_K_M, AWQ, FP8, ...")
_ENGINE = _text("Engine: vllm, sglang, llama.cpp, ollama, ...")
_HARDWARE = _text('Hardware in words: "2x RTX 4090, 128GB RAM", "M3 Max 64GB", "cpu, 64GB RAM"; "this" is this machine')
_CONTEXT = _count("Tokens of the longest request, prompt and output together")
_CONCURRENCY = _count("Requests at the same time")

OPERATIONS: dict[str, Operation] = {
    t.name: t
    for t in (
        Operation(
            "recommend",
            "Which inference engine, model, weight format and settings to run on a machine, the exact command, how "
            "fast it will be, and why not the others.",
            {"hardware": _HARDWARE, "model": _MODEL, "quantization": _QUANTIZATION, "engine": _ENGINE,
             "use_case": _text("What it is for", enum=list(USE_CASES)), "concurrency": _CONCURRENCY,
             "context": _CONTEXT, "prompt_tokens": _count("Typical tokens of a prompt"),
             "output_tokens": _count("Typical tokens of an answer")},
            (),
            answers.recommend,
        ),
        Operation(
            "explain",
            "Where the memory of a model goes, by part and context length, what it fits on, what would change it.",
            {"model": _MODEL, "quantization": _QUANTIZATION, "hardware": _HARDWARE, "engine": _ENGINE,
             "context": _CONTEXT, "concurrency": _CONCURRENCY},
            ("model",),
            answers.explain,
        ),
        Operation(
            "check",
            "Will a deployment file (compose, Kubernetes, Helm, systemd, Dockerfile, shell, ...) start and fit? "
            "Verdicts and findings.",
            {"files": {"type": "array", "items": {"type": "string"}, "description": "Files of the working folder"},
             "text": _text("The text of a file, in place of `files`"),
             "name": _text("What the text is called: compose.yaml, run.sh"),
             "hardware": _HARDWARE, "fit": {"type": "boolean", "description": "false: rules alone"},
             "engine_version": _text("Where the files name none")},
            (),
            answers.check,
        ),
        Operation(
            "hardware",
            "What hardware to buy or rent for a model and a number of users, with prices and speed.",
            {"model": _MODEL, "users": _count("Users at the same time"), "context": _CONTEXT,
             "budget": _text('Most that it may cost: "3000EUR"'), "rent": _text('Most rent: "1500EUR/month"'),
             "quantization": _QUANTIZATION, "engine": _ENGINE, "currency": _text("EUR, USD, ..."),
             "use_case": _text("What it is for", enum=list(USE_CASES))},
            ("model",),
            answers.hardware,
        ),
        Operation(
            "fleet_plan",
            "Which replicas of which models run on which nodes, for the least cost; what is not served and why.",
            {"nodes": _text("File of the folder: kubectl get nodes -o json, scontrol show node -o, or own YAML"),
             "models": _text("File of the working folder: what is to be served (docs/fleet.md)"),
             "confidence": _text("Speeds: the likely ones, or their low ends", enum=["likely", "safe"])},
            ("nodes", "models"),
            answers.plan_fleet,
        ),
        Operation(
            "calibrate",
            "A start-up log or a benchmark's result file of the working folder against the prediction. Keeps nothing.",
            {"log": _text("The file"), "model": _text("Where it names none"), "quantization": _QUANTIZATION,
             "engine": _ENGINE, "hardware": _HARDWARE},
            ("log",),
            answers.calibrate,
        ),
    )
}  # fmt: skip
