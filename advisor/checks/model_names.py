"""Model names as deployment files write them: hub ids, GGUF repositories and files, NIM paths, Ollama tags.

A name is never replaced by a near one. What may be taken off is the quantization that publishers append by convention
(`-FP8`, `-AWQ`, `-NVFP4`, `-GGUF`): the rest must be a name of the catalogue, and the answer says what was assumed.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from advisor.checks.knowledge import Knowledge
from advisor.memo import memoize_by_identity
from advisor.near import simplify_name

# how publishers end the name of a quantized copy -> weight format
_SUFFIXES: tuple[tuple[str, str | None], ...] = (
    (r"awq(-(int4|4bit|w4a16))?(-marlin)?", "AWQ"),
    (r"gptq(-(int4|4bit|int8))?(-marlin)?", "GPTQ"),
    (r"nvfp4(-fp8)?", "NVFP4"),
    (r"fp4", "NVFP4"),
    (r"w-mxfp4-a-fp8", "MXFP4"),
    (r"mxfp4", "MXFP4"),
    (r"mxfp8", "MXFP8"),
    (r"fp8(-?(dynamic|block|kv|e4m3|tensor|wo))*", "FP8"),
    (r"kv", None),
    (r"quantized\.w8a8|w8a8(-int8)?|int8", "INT8"),
    (r"quantized\.w4a16|(qat-)?w4a16(-ct|-g\d+)?|int4(-w4a16)?|autoround(-int4)?|int4-autoround", "INT4"),
    (r"bnb-4bit|unsloth-bnb-4bit|4bit-bnb", "bitsandbytes-4bit"),
    (r"bf16", "BF16"),
    (r"fp16|f16", "F16"),
    (r"(i1-)?gguf", None),
    (r"qat-q4_0(-unquantized)?|qat", None),
    (r"hf", None),
    (r"base", None),
    (r"mlx-4bit|4bit", "MLX-4bit"),
    (r"8bit", "MLX-8bit"),
)
_GGUF = re.compile(r"[-_.](?P<q>(?:UD-)?(?:I?Q\d(?:_[A-Z0-9]+)*|BF16|F16|F32|MXFP4(?:_MOE)?|TQ\d_\d))$", re.I)
_PUBLISHERS = (
    "meta-",
    "qwen_",
    "nvidia_",
    "google_",
    "mistralai_",
    "deepseek-ai_",
    "microsoft_",
    "openai_",
    "zai-org_",
    "moonshotai_",
    "liquidai_",
)
_PATHS = re.compile(r"^(/|\.{1,2}/|~/|s3://|gs://|az://|oci://|pvc://|\$|file://|[A-Za-z]:\\)")


class NamedModel(NamedTuple):
    """What a name stands for in the catalogue."""

    name: str  # name to resolve
    quantization: str | None = None
    assumed: str | None = None  # what was taken for granted


def is_path(name: str) -> bool:
    """Whether the name is a place in some file system, which nobody can look into here."""
    return bool(_PATHS.match(name)) or name.startswith("/")


def find_named_model(name: str, knowledge: Knowledge) -> NamedModel | None:
    """The catalogue's name and the weight format that `name` says; None where the catalogue has no such name."""
    bare, quant = name.strip(), None
    m = re.match(r"^(.*):([A-Za-z0-9_.-]+)$", bare)
    if m and "/" in m[1] and not bare.startswith("hf.co"):
        if is_in_catalogue(bare, knowledge):
            return NamedModel(bare)
        bare, quant = m[1], m[2]
    bare = re.sub(r"^(hf\.co|huggingface\.co)/", "", bare)
    m = re.match(r"^(.*/.*):([A-Za-z0-9_.-]+)$", bare)
    if m:
        bare, quant = m[1], m[2]
    if is_in_catalogue(bare, knowledge):
        return NamedModel(bare, quant)
    if quant is None and ":" in bare and (tag := _ollama_tag(bare, knowledge)) is not None:
        return tag
    short = bare.rpartition("/")[2]
    short = re.sub(r"-\d{5}-of-\d{5}$", "", re.sub(r"\.gguf$", "", short, flags=re.I), flags=re.I)
    found = _without_suffix(short, quant, knowledge)
    if found is None:
        return None
    said = (
        f"{name} is taken as {found.name}"
        + (f" in {found.quantization}" if found.quantization else "")
        + ", by its name"
    )
    return found._replace(assumed=said)


def _ollama_tag(name: str, knowledge: Knowledge) -> NamedModel | None:
    """`qwen2.5:7b-instruct-q8_0`: the tag may name size, kind and weight format."""
    base, _, tag = name.partition(":")
    m = re.match(r"^(.*?)(?:-(instruct|chat|it|text|base))?(?:-((?:i?q\d|fp16|f16|bf16)[\w]*))?$", tag, re.I)
    if not m:
        return None
    for t in (f"{base}:{m[1]}-{m[2]}" if m[2] else None, f"{base}:{m[1]}"):
        if t and is_in_catalogue(t, knowledge):
            return NamedModel(t, m[3].upper() if m[3] else None, f"{name} is taken as {t}, by its tag")
    return None


def _without_suffix(short: str, quant: str | None, knowledge: Knowledge) -> NamedModel | None:
    now = short
    for _ in range(5):
        for c in (now, *(now[len(p) :] for p in _PUBLISHERS if now.lower().startswith(p))):
            if is_in_catalogue(c, knowledge):
                return NamedModel(c, quant)
            if quant and is_in_catalogue(
                f"{c}-BF16", knowledge
            ):  # publishers that name the plain copy after its format
                return NamedModel(f"{c}-BF16", quant)
        m = _GGUF.search(now)
        if m:
            quant, now = quant or m["q"].upper().replace("UD-", "UD-"), now[: m.start()]
            continue
        for pattern, fmt in _SUFFIXES:
            s = re.search(rf"[-_.](?:{pattern})$", now, re.I)
            if s:
                quant, now = quant or fmt, now[: s.start()]
                break
        else:
            return None
    return None


def locked_id(path: str) -> str:
    """What a lock file calls the model at a path: words that nothing takes for a path."""
    return "locked " + re.sub(r"[^A-Za-z0-9]+", " ", path).strip()


def is_in_catalogue(name: str, knowledge: Knowledge) -> bool:
    """Whether the catalogue has a model of exactly this name (case and punctuation aside)."""
    return simplify_name(name) in _plain_names(knowledge)


@memoize_by_identity
def _plain_names(knowledge: Knowledge) -> frozenset[str]:
    index = knowledge.rules.model_index()
    return frozenset(simplify_name(n) for row in index for n in (row.id, row.id.rpartition("/")[2], *row.aliases))
