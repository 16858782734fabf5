"""Readers of outside files against mutated inputs: run by test_readers.py in a process of its own, with little memory.

python mutate_readers.py KIND COUNT SEED FOLDER: prints a JSON line of what went wrong, and a last one with the totals.
Anything but a model, a list of tensors or an AdvisorError is a finding; so is one that
takes more than MOST_SECONDS of processor time.
"""

from __future__ import annotations

import contextlib
import copy
import json
import random
import resource
import struct
import sys
import time
from collections.abc import Callable
from pathlib import Path

from advisor.catalog import catalog
from advisor.catalog.roots import shipped_root
from advisor.errors import AdvisorError
from advisor.estimation import EstimateRequest, estimate, resolve_request
from advisor.memory import gguf_weights
from advisor.models.gguf import read_gguf
from advisor.models.gguf_model import model_from_gguf
from advisor.models.hf_config import read_model_dir
from advisor.models.safetensors import read_safetensors
from advisor.session import Session

sys.path.insert(0, str(Path(__file__).parent))
import mutate_check
import text_targets

ARCHITECTURES = catalog([shipped_root()]).gguf_architectures

HERE = Path(__file__).parent
HEADER = 12_000  # bytes that hold the seed's header and tensor table, so that most changes land there
MOST_SECONDS = 2  # of processor time for one input
EXTRA_BYTES = 300 * 10**6
NUMBERS = (0, 1, 255, 2**31 - 1, 2**31, 2**32 - 1, 2**40, 2**62, 2**63 - 1, 2**64 - 1)
WORDS = (b"null", b"-1", b"0", b"1e999", b'"x"', b"[]", b"{}", b"true", b"99999999999999999999", b'{"a":' * 40)


def mutate(data: bytes, r: random.Random) -> bytes:
    """One to four changes: bits, bytes, numbers, JSON words, cuts, repeats."""
    b = bytearray(data)
    for _ in range(r.randint(1, 4)):
        at = r.randrange(len(b)) if b else 0
        kind = r.randrange(8)
        if kind == 0 and b:
            b[at] ^= 1 << r.randrange(8)
        elif kind == 1 and b:
            b[at] = r.randrange(256)
        elif kind == 2:
            b[at : at + 8] = struct.pack("<Q", r.choice(NUMBERS))
        elif kind == 3:
            b[at : at + 4] = struct.pack("<I", r.choice(NUMBERS) & 0xFFFFFFFF)
        elif kind == 4:
            del b[at:]
        elif kind == 5:
            del b[at : at + r.randint(1, 64)]
        elif kind == 6:
            piece = bytes(b[at : at + r.randint(1, 64)])
            b[at:at] = piece * r.randint(1, 4)
        else:
            b[at : at + r.randint(0, 6)] = r.choice(WORDS)
    return bytes(b)


def swap_value(data: bytes, r: random.Random) -> bytes:
    """A JSON document with values exchanged for others, so that it still parses."""
    document = json.loads(data)
    odd = [
        None,
        -1,
        0,
        1,
        3,
        2**40,
        2**70,
        1.5,
        -0.0,
        True,
        "",
        "x",
        [],
        {},
        [1] * 50,
        {"a": {"b": 1}},
        "full_attention",
    ]
    for _ in range(r.randint(1, 4)):
        at = document
        while True:
            keys = list(at) if isinstance(at, dict) else list(range(len(at)))
            if not keys:
                break
            k = r.choice(keys)
            if isinstance(at[k], (dict, list)) and at[k] and r.random() < 0.7:
                at = at[k]
                continue
            at[k] = copy.deepcopy(r.choice(odd))
            break
    return json.dumps(document).encode()


def change(base: bytes, seeds: list[bytes], kind: str, r: random.Random) -> bytes:
    """One mutated input: bytes of binary files; of texts values, pieces and bytes."""
    if kind == "config":
        return swap_value(base, r) if r.random() < 0.7 else mutate(base, r)
    if kind not in text_targets.TARGETS or r.random() < 0.2:
        return mutate(base, r)
    if base[:1] == b"{" and r.random() < 0.6:
        with contextlib.suppress(ValueError):
            return swap_value(base, r)
    others = [s.decode("utf-8", "replace") for s in seeds]
    return mutate_check.mutate(base.decode("utf-8", "replace"), others, r).encode("utf-8", "surrogatepass")


def gguf_seeds(folder: Path) -> list[bytes]:
    sys.path.insert(0, str(HERE.parent))
    import tiny_model

    return [tiny_model.write(folder / "seed.gguf").read_bytes()[:HEADER]]


def safetensors_seeds() -> list[bytes]:
    header = {
        "__metadata__": {"format": "pt"},
        "model.embed_tokens.weight": {"dtype": "BF16", "shape": [32, 8], "data_offsets": [0, 512]},
        "model.layers.0.self_attn.q_proj.weight": {"dtype": "F8_E4M3", "shape": [8, 8], "data_offsets": [512, 576]},
        "lm_head.weight": {"dtype": "F32", "shape": [4, 8], "data_offsets": [576, 704]},
    }
    text = json.dumps(header).encode()
    return [struct.pack("<Q", len(text)) + text + bytes(704)]


def index_seeds(folder: Path) -> list[bytes]:
    (folder / "a.safetensors").write_bytes(safetensors_seeds()[0])
    names = ("model.embed_tokens.weight", "model.layers.0.self_attn.q_proj.weight", "lm_head.weight")
    return [json.dumps({"metadata": {"total_size": 704}, "weight_map": dict.fromkeys(names, "a.safetensors")}).encode()]


def read_one_gguf(path: Path) -> None:
    model_from_gguf(read_gguf(path), str(path), ARCHITECTURES)
    gguf_weights._from_file.cache_clear()
    gguf_weights.weights_from_file(path)


def read_config(rules: object) -> Callable[[Path], None]:
    def read(path: Path) -> None:
        read_model_dir(path, catalog().config_classes)
        d, _ = resolve_request(
            EstimateRequest(model=str(path), engine="vllm", hardware="H100 80GB SXM", context_length=4096),
            rules,  # type: ignore[arg-type]
        )
        estimate(d, Session(rules))  # type: ignore[arg-type]

    return read


def main(kind: str, count: int, seed: int, folder: Path) -> None:
    r = random.Random(seed)
    if kind == "gguf":
        seeds, target, read = gguf_seeds(folder), folder / "x.gguf", read_one_gguf
    elif kind == "safetensors":
        seeds, target, read = safetensors_seeds(), folder / "model.safetensors", lambda p: read_safetensors(p) and None
    elif kind == "index":
        seeds, target = index_seeds(folder), folder / "model.safetensors.index.json"
        read = lambda p: read_safetensors(p) and None  # noqa: E731
    elif kind in text_targets.TARGETS:
        aim = text_targets.TARGETS[kind]
        seeds, target, read = aim.seeds(folder), folder / aim.name, aim.read
    else:
        seeds = [p.read_bytes() for p in sorted((HERE.parent / "models" / "configs").rglob("*.json"))]
        target, read = folder / "config.json", read_config(catalog())
    for s in seeds:  # what is loaded once does not count
        target.write_bytes(s)
        with contextlib.suppress(AdvisorError):
            read(target)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + EXTRA_BYTES,) * 2)
    refused = slowest = 0.0
    for i in range(count):
        base = r.choice(seeds)
        data = change(base, seeds, kind, r)
        target.write_bytes(data)
        began = time.process_time()
        try:
            read(target)
        except AdvisorError:
            refused += 1
        except BaseException as e:
            print(json.dumps({"i": i, "error": repr(e)[:300], "data": data[:4000].hex()}))
        took = time.process_time() - began
        slowest = max(slowest, took)
        if took > MOST_SECONDS:
            print(json.dumps({"i": i, "error": f"{took:.1f} s", "data": data[:4000].hex()}))
    print(json.dumps({"inputs": count, "refused": refused, "slowest": slowest}))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4]))
