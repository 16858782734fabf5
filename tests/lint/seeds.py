# ruff: noqa: E501 - tables, one fault a line
"""Faults that are put into a copy of the shipped rules, each with what the linter must say of it and where."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple


class Seed(NamedTuple):
    """A change of one file (`old` to `new`, the first of it behind `behind`) and the fault that it makes.

    The fault is reported on the line of `at` (default: the first line that changed).
    """

    file: str
    old: str
    new: str
    code: str
    says: str
    behind: str = ""
    at: str = ""


LLAMA = "id: meta-llama/Llama-3.1-8B-Instruct"
MOE = "id: Qwen/Qwen3-30B-A3B\n"

SEEDS = (
    # totals
    Seed("models/llama-3.1.yaml", "params_total: 8030261248", "params_total: 8993892597", "total", "+12.0 %", LLAMA),
    Seed("models/qwen3.yaml", "params_active: 3041867776", "params_active: 3341867776", "total", "params_active is", MOE),
    Seed("models/gemma-3.yaml", "n: 22,", "n: 21,", "total", "layers are 25, n_layers is 26",
         "id: google/gemma-3-1b-it", "    attention:"),
    Seed("quantizations.yaml", "bits_nominal: 5.5,", "bits_nominal: 5.6,", "total", "176 bytes for 256 weights are 5.5 bits"),
    Seed("hardware/cpus.yaml", "bandwidth_gbs_per_socket: 51.2", "bandwidth_gbs_per_socket: 57.2", "total", "2 channels"),
    Seed("hardware/amd.yaml", "usable_bytes: 205621559296", "usable_bytes: 306621559296", "total", "of memory_bytes"),
    Seed("comparisons.yaml", "said: ['yes', 'no', 'no', 'no', 'yes']", "said: ['yes', 'no', 'no', 'no']", "total", "4 cells for 5"),
    # units
    Seed("hardware/nvidia.yaml", "memory_bytes: 17179869184", "memory_bytes: 16000000000", "unit", "17179869184", "- id: rtx-4080\n"),
    Seed("hardware/intel.yaml", "bandwidth_gbs: 456", "bandwidth_gbs: 0.456", "unit", "GB/s cannot be"),
    Seed("prices/cloud.yaml", "usd_per_hour: 3.29", "usd_per_hour: 2401.7", "unit", "not a price of one device"),
    Seed("models/llama-2.yaml", "gb: 7.3", "gb: 7300", "unit", "bits each"),
    # references
    Seed("format-loss.yaml", "names: [INT8]", "names: [INT9]", "unknown_name", "unknown weight format 'INT9'"),
    Seed("cards.yaml", "- rtx-5080", "- rtx-5800", "unknown_name", "unknown accelerator 'rtx-5800'"),
    Seed("engines/sglang.yaml", "[context-length]", "[context-lenght]", "unknown_name", "'context-lenght' is not a flag"),
    Seed("engines/lmdeploy.yaml", "listen: [--server-name", "listen: [--server-nam", "unknown_name", "'--server-nam' is not a flag"),
    Seed("engines/max.yaml", "linux: {support: 'yes', src: [", "linux: {support: 'yes', src: [nowhere, ", "unknown_name", "unknown source"),
    Seed("engines/mlx-lm.yaml", "openai-client, benchmark]", "openai-client, benchmrk]", "unknown_name", "unknown target 'benchmrk'"),
    Seed("migrations.yaml", "sglang: context-length", "sglang: context-len-gth", "unknown_name", "not a setting in rules/flags/sglang"),
    Seed("live-prices.yaml", "A10 24: a10", "A10 24: a10x", "unknown_name", "unknown accelerator 'a10x'"),
    Seed("speed.yaml", "eager/sm80:", "eager/sm08:", "unknown_name", "unknown class 'sm08'"),
    Seed("checks/hardware.yaml", "mi325x: MI325X", "mi325x: MI325Z", "unknown_name", "names no hardware"),
    # keys, kinds, words
    Seed("engines/tgi.yaml", "\nlicense:", "\nlicence:", "unknown_key", "`licence` is not a key"),
    Seed("engines/vllm.yaml", "fraction_of: total", "fraction_of: totals", "wrong_value", "after_weights, total"),
    Seed("engines/tensorrt-llm.yaml", "  linux: {support: 'yes'", "  linux: {support: yes", "wrong_value", "quote it"),
    Seed("flags/mlx-lm.yaml", "port: {t: int}", "port: {t: integer}", "wrong_value", "type 'integer'"),
    Seed("workloads.yaml", "easy_share: 0.5", "easy_shares: 0.5", "unknown_key", "`easy_shares` is not a key"),
    Seed("choosing.yaml", "tie: 0.15", "ties: 0.05\ntie: 0.15", "unknown_key", "`ties` is not a key", at="ties: 0.05"),
    Seed("budgets.yaml", "hours_per_month: 730", "hours_per_month: 730\nhours_per_month: 731", "duplicate_key", "appears twice",
         at="hours_per_month: 731"),
    Seed("drafts.yaml", "hidden_states: 3", "hidden_states: three", "wrong_value", "a whole number is expected"),
    Seed("engines/exllamav3.yaml", "chunk_size: 2048", "chunk_size: many", "wrong_value", "expected `int`, got `str`"),
    Seed("engines/lmdeploy.yaml", "\nlicense:", "\nonly_asked_for: it is a test\nlicense:", "contradiction", "recommends it"),
    # check rules
    Seed("checks/rules/flags.yaml", "  except_because: a rule of its own says it\n", "", "missing_key", "`except_because` is missing",
         at="  except_engines: [ollama]"),
    Seed("checks/rules/start.yaml", "field: tp.heads_uneven", "field: tp.head_uneven", "unknown_name", "unknown field 'tp.head_uneven'"),
    Seed("checks/rules/start.yaml", "bad: vllm serve Qwen/Qwen3-30B-A3B --enable-eplb", "bad: vllm serve Qwen/Qwen3-30B-A3B --max-num-seqs 4",
         "snippet", "does not find fault with it"),
    Seed("checks/rules/start.yaml", "Qwen3-30B-A3B-GPTQ-Int4 -tp 2 --max-model-len",
         "Qwen3-30B-A3B-GPTQ-Int4 -tp 8 --max-model-len", "snippet", "the rule finds fault with it"),
    Seed("checks/rules/start.yaml", "- id: tp-group-size-indivisible", "- id: shm-missing-tp", "duplicate_name", "already in"),
    # guides
    Seed("guides/advisor.yaml", "then: cloud-api", "then: cloud-apis", "unknown_name", "unknown engine 'cloud-apis'"),
    Seed("guides/advisor.yaml", "{field: workload.form_factor, is: browser}", "{field: workload.form_facto, is: browser}",
         "unknown_name", "unknown field 'workload.form_facto'"),
    # dates, sources, patterns, order
    Seed("prices/cloud.yaml", "date: 2026 (date unknown)", "date: 2062-01-01", "date", "in the future", "name: B200 SXM6 180GB, devices: 2"),
    Seed("models/phi.yaml", "release_date: '2024-04-22'", "release_date: '2024-04-31'", "date", "no such day"),
    Seed("engines/ollama.yaml", "date: '2026-08-21'", "date: yesterday", "date", "is not a date"),
    Seed("quantizations.yaml", "source: 'llama.cpp v0.5.0: block layouts; checked on 232 files byte for byte'", "source: ' '",
         "source", "names no source", "id: Q5_K_S", "id: Q5_K_S"),
    Seed("engines/llama.cpp.yaml", "match: (^|/)llama-cpp-python", "match: (^|/llama-cpp-python", "pattern", "not a regular expression"),
    Seed("engines/transformers.yaml", "working_share: [0.0, 0.08, 0.3]", "working_share: [0.3, 0.08, 0.0]", "range",
         "low, usual, high"),
    Seed("speed-engines.yaml", "accepts: {least: [0.3, 0.4]", "accepts: {least: [1.3, 0.4]", "unit", "lie between 0 and 1",
         at="    draft:"),
    # what a probe needs, names
    Seed("hardware/nvidia.yaml", "compute_capability: '8.9'", "compute_capability: '9.8'", "contradiction", "is hopper", "- id: l40s\n"),
    Seed("hardware/amd.yaml", "pci_ids: [1002:75a3]", "pci_ids: [10de:75a3]", "probe", "a device of nvidia"),
    Seed("models/yi.yaml", "aliases: [", "aliases: [qwq, ", "duplicate_name", "also a name of Qwen/QwQ-32B"),
    # whole files
    Seed("hardware/aws.yaml", "accelerators:\n", "accelerators: [\n", "unreadable", "not valid YAML", at=""),
)  # fmt: skip


# What a stranger may forget: file -> its text, and (code, part of the sentence) of everything that the linter must name.
NEW: dict[str, tuple[str, tuple[tuple[str, str], ...]]] = {
    "engines/newserve.yaml": (
        "id: newserve\nname: NewServe\nkind: engine\nversion: '1.0'\nhealth: {status: active}\n"
        "os: {linux: {support: 'yes', src: [docs]}}\nsources: {docs: {title: its documentation, version: '1.0'}}\n",
        (
            ("missing_key", "`hardware` is missing: what it runs on"),
            ("missing_key", "`formats` is missing: the checkpoint formats it loads"),
            ("missing_place", "does not say under `start` how it is started"),
            ("missing_place", "neither in `targets` nor in `no_target` whether it has command"),
            (
                "missing_place",
                "no leaf of rules/guides/advisor.yaml names it, so it is only taken when it is asked for; where that is meant: only_asked_for",
            ),
            (
                "missing_place",
                "constants in `memory` (`family: pool` reserves a share of each device, `family: plain` grows with use: no Python",
            ),
            ("missing_place", "rules/flags/newserve.yaml is missing"),
        ),
    ),
    "engines/othserve.yaml": (
        "id: othserve\nname: OtherServe\nkind: engine\nhealth: {status: active}\nmemory: {source: a test of 1.0}\n"
        "start: {program: [othserve]}\ntargets: [command, docker, install]\nsources: {docs: {title: a test, version: '1'}}\n",
        (
            ("missing_key", "`os` is missing"),
            ("missing_key", "`hardware` is missing"),
            ("missing_key", "`formats` is missing"),
            ("missing_key", "does not say under `start.model` how it is given the model"),
            ("missing_key", "does not say under `start.listen` how it is given where to listen"),
            (
                "missing_place",
                "nothing reads `memory`: it says no `family` (pool or plain: no Python is needed), and there is no advisor/engines/othserve.py",
            ),
            ("missing_place", "docker needs a container image, and there are no `images`"),
            ("missing_place", "`installation` does not say how it is installed"),
            ("missing_place", "no leaf of rules/guides/advisor.yaml names it"),
            ("missing_place", "`recognition` names no program, module or image of it"),
        ),
    ),
    "flags/othserve.yaml": ("engine: othserve\nversion: '1'\nsource: its parser, 1.0\nflags: {}\n", ()),
    # half of it is done: nothing of that keeps the other half from being told
    "engines/halfserve.yaml": (
        "id: halfserve\nname: HalfServe\nversion: '1.0'\nonly_asked_for: it is a test\n"
        "os: {linux: {support: 'yes', src: [paper]}}\nhardware: {nvidia: {support: 'yes', src: [docs]}}\n"
        "formats: {hf_safetensors: {support: 'yes', src: [docs]}}\nfeatures: {tp: {support: 'yes', src: [docs]}}\n"
        "images: [{lane: cuda, repository: half/serve, tag: '1.0', src: [docs]}]\nconcepts: {model: {flags: [model], positional: true}}\n"
        "recognition:\n  programs: {halfserve: {}}\n  images: [{match: ^half/serve$, entry: serve}]\n"
        "  server: {port: 9000, host: 127.0.0.1}\n  source: its documentation of 1.0\n"
        "start: {program: [halfserve], model: [--model], listen: [--listen, '9000'], image: {program: [halfserve], cache: /root}}\n"
        "targets: [command, docker, composed]\n"
        "memory:\n  family: pool\n  source: a test of 1.0\n  fraction_of: total\n  kv_bytes: {}\n  tiers: [{from_gib: 0, sequences: 64}]\n"
        "  activation: []\n  graphs_gib: []\n  outside_gib: []\n  planner: plain\n"
        "sources: {docs: {title: a test, version: '1'}}\n",
        (
            ("missing_key", "`health` is missing: {status: active | archived | maintenance | unknown}"),
            ("missing_key", "`kind` is missing: one of engine, wrapper,"),
            ("unknown_name", "os.linux.src[0]: unknown source 'paper'; there are docs"),
            ("missing_place", "`concepts.tensor_parallel` does not say that its flag is tp-size"),
            ("unknown_name", "concepts.model.flags[0]: 'model' is not a flag in rules/flags/halfserve.yaml"),
            ("missing_key", "start.model: says nowhere which model: {model} is missing"),
            ("unknown_name", "start.model[0]: '--model' is not a flag"),
            ("unknown_name", "start.listen[0]: '--listen' is not a flag"),
            ("missing_key", "start.listen: {port} is missing"),
            ("missing_key", "start.listen: {host} is missing: in its image (docker) it listens on 127.0.0.1"),
            ("contradiction", "start.image.program: its image starts the server by itself"),
            ("unknown_name", "unknown target 'composed'; there are command,"),
            ("wrong_value", "memory.kv_bytes: at least one row is expected"),
            ("missing_key", "memory.tiers[0]: `batched_tokens` is missing"),
            ("wrong_value", "memory.activation: at least one row is expected"),
            ("wrong_value", "memory.outside_gib: at least one row is expected"),
        ),
    ),
    "engines/poolserve.yaml": (  # all of it decodes, and nothing can be estimated
        "id: poolserve\nname: PoolServe\nkind: engine\nversion: '1.0'\nhealth: {status: active}\nonly_asked_for: it is a test\n"
        "os: {linux: {support: 'yes', src: [docs]}}\nhardware: {nvidia: {support: 'yes', src: [docs]}}\n"
        "formats: {hf_safetensors: {support: 'yes', src: [docs]}}\nno_target: {command: it is a test}\n"
        "start: {program: [poolserve], model: ['{model}'], listen: [--port, '{port}']}\n"
        "memory:\n  family: pool\n  source: a test of 1.0\n  fraction_of: total\n  kv_bytes: {auto: 2}\n"
        "  tiers: [{from_gib: 0, batched_tokens: 2048, sequences: 64, before: '0.9'}]\n"
        "  activation: [{mlp: 3, sampler_bytes: 14, low: 0.5, high: 2, source: assumed}]\n  graphs_gib: []\n"
        "  outside_gib: [{low: 0.1, value: 0.4, high: 1, source: assumed, from_ranks: 2}]\n  planner: plain\n"
        "sources: {docs: {title: a test, version: '1'}}\n",
        (
            ("range", "memory.outside_gib: one row must hold for one rank"),
            ("range", "memory.tiers: one row must hold for any card and the newest version"),
            ("contradiction", "memory: the simplest estimate is refused: concepts.memory_share has no default"),
            ("missing_place", "rules/flags/poolserve.yaml is missing"),
        ),
    ),
    "flags/halfserve.yaml": (
        "engine: halfserve\nversion: '1'\nsource: its parser, 1.0\npositional: [checkpoint]\n"
        "flags: {tp-size: {t: int}, gpu-memory-share: {t: float}}\n",
        (),
    ),
    "models/newmodel.yaml": (
        "family: newmodel\nmodels:\n- {id: org/New-8B, params_total: 8000000000, source: [its card]}\n"
        "- {id: org/New-9B, params_total: 900000000, stub: {n_layers: 2}, max_context: 4096, source: ['its card, 2026']}\n"
        "- {id: org/New-3B, params_total: 3000000000, max_context: 4096, source: ['its card, 2026'],\n   layout: {n_layers: 2, hidden_size: 8}}\n"
        "- {id: org/New-4B, params_total: 4000000000, max_context: 4096, source: ['its card, 2026'], layout: {n_layers: 2, hidden_size: 8, vocab_size: 10,\n"
        "   tie_embeddings: false, attention: [{kind: fully, n: 2}], ffn: [{kind: dense, n: 2, intermediate: 16}]}}\n",
        (
            ("missing_key", "needs either `layout` or, where it is not known, `stub`"),
            ("missing_key", "`max_context` is missing"),
            ("source", "neither version nor date"),
            ("unit", "the name says 9B"),
            ("missing_key", "org/New-3B: layout: `attention` is missing"),
            ("missing_key", "org/New-3B: layout: `ffn` is missing"),
            ("missing_key", "org/New-3B: layout: `vocab_size` is missing"),
            ("missing_key", "org/New-3B: layout: `tie_embeddings` is missing"),
            ("wrong_value", "org/New-4B: layout.attention[0].kind: 'fully' is not one of"),
        ),
    ),
    "models/a-model.yaml": (  # read before the one whose name it takes
        "family: a\nmodels:\n- {id: org/Awesome, aliases: [awesome, phi-4], params_total: 7000, max_context: 4096, stub: {n_layers: 2},\n"
        "   source: ['its card, 2026']}\n",
        (("duplicate_name", "org/Awesome: the name 'phi-4' is also a name of microsoft/phi-4"),),
    ),
    "hardware/newcard.yaml": (
        "vendor: nvidia\naccelerators:\n- {id: new-card, name: New Card, form: cart, source: data sheet of 2026, confidence: 1src}\n"
        "- {id: rtx-7090, name: RTX 7090, architecture: Feynman, compute_capability: '13.0', memory_bytes: 51539607552, bandwidth_gbs: 3000,\n"
        "   tflops: {fp16: 400}, unknown: [price, tflops], name_pattern: '.*RTX ?(7090|5090)\\b', source: data sheet}\n",
        (
            ("missing_key", "`memory_bytes` is missing"),
            ("missing_key", "`tflops` is missing, so no speed is known of it"),
            ("missing_key", "`bandwidth_gbs` is missing, so no speed is known of it"),
            ("missing_key", "`price` is missing, so `advise hardware` never lists it"),
            ("probe", "`compute_capability` is missing"),
            ("probe", "no `name_pattern`, `reported_names` or `pci_ids`"),
            ("unknown_name", "unknown form 'cart'"),
            ("missing_key", "`confidence` is missing: one of 2src, 1src, doubtful"),
            ("unknown_name", "no rule knows the architecture 'Feynman'; known of nvidia are Ada Lovelace, Ampere"),
            ("probe", "name_pattern: also matches 'NVIDIA GeForce RTX 5090"),
            ("source", "'data sheet' has neither version nor date"),
            ("contradiction", "unknown[1]: the entry gives its tflops"),
        ),
    ),
    "checks/rules/newrule.yaml": (
        "as_of: '2026-11-22'\nrules:\n- {id: new-rule, engines: [vllm], severity: error, phase: starting, message: '{modle.moe} is on',\n"
        "   when: {field: arg.max-model-length, above: 1}, fix: lower it, source: its documentation}\n"
        "- {id: half-rule, engines: [halfserve], severity: err, phase: start, when: {field: given.gpu-mem-share, is: true}, at: [gpu-memory-shares],\n"
        "   message: 'it is {arg.gpu-memry-share}', fix: lower it, bad: vllm serve Qwen/Qwen3-8B, good: sglang serve --model-path Qwen/Qwen3-8B}\n"
        "- {id: bare-rule, phase: start, message: m, source: its documentation}\n",
        (
            ("missing_key", "new-rule: `bad` is missing"),
            ("missing_key", "new-rule: `good` is missing"),
            ("wrong_value", "'starting' is not one of"),
            ("unknown_name", "{modle.moe} is not a fact"),
            ("unknown_name", "unknown flag 'max-model-length' of vllm"),
            ("wrong_value", "half-rule: rules[1].severity: 'err' is not one of error,"),
            ("missing_key", "half-rule: rules[1]: `source` is missing"),
            ("unknown_name", "when.field: unknown flag 'gpu-mem-share' of halfserve"),
            ("unknown_name", "at[0]: unknown flag 'gpu-memory-shares' of halfserve"),
            ("unknown_name", "message: unknown flag 'gpu-memry-share' of halfserve"),
            ("snippet", "half-rule: bad: starts vllm, and the rule is for halfserve"),
            ("missing_key", "bare-rule: rules[2]: `severity` is missing: one of error, "),
            ("missing_key", "bare-rule: rules[2]: `fix` is missing"),
            ("missing_key", "bare-rule: needs `when` (a condition) or `each`"),
            ("missing_key", "bare-rule: `bad` is missing"),
            ("missing_key", "bare-rule: `good` is missing"),
        ),
    ),
    # its engine has flags, and no rule of its own is expected for them
    "checks/rules/otherengine.yaml": (
        "as_of: '2026-11-22'\nrules:\n- {id: strange-rule, engines: [sglang], severity: error, phase: start, when: {field: given.tp-size, is: true},\n"
        "   message: m, fix: f, source: s, bad: vllm serve Qwen/Qwen3-8B --tp 2, good: sglang serve --model-path Qwen/Qwen3-8B}\n",
        (("snippet", "bad: starts vllm, and the rule is for sglang"),),
    ),
}


def planted(source: Path, folder: Path) -> Path:
    """A copy of the rules with every fault in it, the new files, and one that no part of the program reads."""
    import shutil

    shutil.copytree(source, folder)
    for seed in SEEDS:
        path = folder / seed.file
        text = path.read_text(encoding="utf-8")
        start = text.index(seed.behind) if seed.behind else 0
        assert seed.old in text[start:], seed
        path.write_text(text[:start] + text[start:].replace(seed.old, seed.new, 1), encoding="utf-8")
    for name, (text, _) in NEW.items():
        (folder / name).write_text(text, encoding="utf-8")
    (folder / "extra.yaml").write_text("a: 1\n")
    return folder


def line_of(seed: Seed, folder: Path) -> int | None:
    """The line on which the fault must be reported; None for a file that cannot be read (any line will do)."""
    if seed.code == "unreadable":
        return None
    after = (folder / seed.file).read_text(encoding="utf-8")
    start = after.index(seed.behind) if seed.behind else 0
    found = after.index(seed.at or seed.new, start)
    if not seed.at:  # a change may begin on the line before
        found += len(seed.new) - len(seed.new.lstrip("\n"))
    return after.count("\n", 0, found) + 1
