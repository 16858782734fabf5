"""What rules find once for each argument, variable or parameter of a launch."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

from advisor.check.edits import remove_argument, rename_argument
from advisor.check.findings import Edit
from advisor.check.judge import Verdict
from advisor.check.knowledge import FlagEntry, Gone, Knowledge
from advisor.check.located import Text
from advisor.check.settings import Argument, number
from advisor.engines.versions import key
from advisor.near import near_matches

if TYPE_CHECKING:
    from advisor.check.facts import Facts


class Item(NamedTuple):
    """One thing that was found: what rules with `only` know it by, words for the message, its place."""

    key: str
    words: Mapping[str, str]
    place: tuple[int, int]
    edits: tuple[Edit, ...] = ()
    fix: str | None = None


Each = Callable[[Verdict, "Facts", Knowledge], Iterator[Item]]


def _at(word: Text) -> tuple[int, int]:
    return word.line, word.column


def gone_now(g: Gone, version: str | None) -> bool:
    """Whether something that left is absent in a version (None = the newest). Between two looked-at versions: not sure,
    so no."""
    v = key(version or "")
    if not v:
        return g.back_in is None
    if g.back_in and v >= key(g.back_in):
        return False
    first = g.first_absent
    if first is not None:
        return v >= key(first)
    return g.last_seen is None or v > key(g.last_seen)


def removed_flags(v: Verdict, facts: Facts, know: Knowledge) -> Iterator[Item]:
    """Flags that the launch's version no longer has, and an older one had."""
    h = know.history
    rows = {"vllm": h.vllm_removed_flags, "sglang": h.sglang_removed_flags, "llama.cpp": h.llama_removed_flags}.get(
        v.launch.engine, ()
    )
    version = v.launch.version
    source = facts._seen.source
    for a in v.arguments.given:
        bare = a.written.lstrip("-").replace("_", "-")
        for g in rows:
            if g.flag != bare or (v.launch.engine != "llama.cpp" and not a.written.startswith("--")):
                continue
            if version is None and a.known and v.launch.engine != "llama.cpp":
                continue  # the current version has it
            if v.launch.engine == "llama.cpp" and not _llama_gone(bare, version):
                continue
            if v.launch.engine != "llama.cpp" and not gone_now(g, version or v.judged.engine_version):
                continue
            instead = g.instead or "remove it"
            words = {
                "flag": a.written,
                "instead": instead,
                "last": g.last_seen or "an older version",
                "version": version or v.judged.engine_version or "the current version",
            }
            m = re.fullmatch(r"(--[a-z][\w-]*)( [a-z]+)?", instead)
            edits = (
                rename_argument(a, instead, source)
                if m and "*" not in instead
                else remove_argument(a, source)
                if instead.startswith("remove")
                else ()
            )
            yield Item(bare, words, _at(a.place), edits, fix=_instead(a.written, instead))
            break


def _instead(written: str, instead: str) -> str:
    return (
        f"Remove {written}" + (f" ({instead[8:].strip()})" if instead.startswith("remove;") else "")
        if instead.startswith("remove")
        else f"Use {instead} in place of {written}"
    )


def _llama_gone(flag: str, version: str | None) -> bool:
    """Whether a llama.cpp build lacks a flag; builds before b10964 still have the loading and web flags."""
    build = key(version or "")
    if flag in ("mlock", "mmap", "no-mmap", "direct-io", "dio"):
        return not build or build[0] >= 11434
    if flag == "no-webui":
        return not build or build[0] >= 10964
    return not build or build[0] >= 10434


def unknown_flags(v: Verdict, facts: Facts, know: Knowledge) -> Iterator[Item]:
    """Flags that no version of the engine is known to have."""
    if v.launch.kind not in ("vllm-config", "sglang-config"):
        yield from _unknown(v, facts, know)


def _unknown(v: Verdict, facts: Facts, know: Knowledge) -> Iterator[Item]:
    table = know.flags(v.launch.engine)
    if table is None or not table.table.flags or not _own_parser(v):
        return
    h = know.history
    gone = {g.flag for g in (*h.vllm_removed_flags, *h.sglang_removed_flags, *h.llama_removed_flags)} | _SPECULATIVE
    source = facts._seen.source
    for a in v.arguments.given:
        bare = a.written.lstrip("-").replace("_", "-")
        if a.known or bare in gone or a.place.unknown or not a.written.startswith("-"):
            continue
        near = near_matches(bare, list(table.table.flags), n=1)
        hint = f"Did you mean --{near[0]}?" if near else "Look it up in the engine's own --help, or remove it"
        close = bool(near) and _close(bare, near[0])
        edits = rename_argument(a, f"--{near[0]}", source) if close else ()
        yield Item(bare, {"flag": a.written, "hint": hint}, _at(a.place), edits, fix=hint)


def _close(a: str, b: str) -> bool:
    """Whether two names are one slip of the keyboard apart."""
    if abs(len(a) - len(b)) > 3:
        return False
    import difflib

    return difflib.SequenceMatcher(None, a, b).ratio() > 0.88


def _own_parser(v: Verdict) -> bool:
    """Whether the arguments go to the engine's own parser, not to a wrapper's (dynamo, huggingfaceserver, NIM)."""
    program = v.launch.program or ""
    image = v.launch.setup.image or ""
    return (
        not re.search(
            r"dynamo\.|huggingfaceserver|llama_cpp\.server|aphrodite|_router|ik[-_]llama|llamafile|beellama|llama-cli|/nim/",
            f"{program} {image}",
        )
        and not any(a.written == "--omni" for a in v.arguments.given)
        and v.launch.kind not in ("tensorrt-llm-config",)
    )


_SPECULATIVE = frozenset(
    (
        "speculative-model",
        "num-speculative-tokens",
        "speculative-draft-tensor-parallel-size",
        "ngram-prompt-lookup-max",
        "ngram-prompt-lookup-min",
        "speculative-max-model-len",
        "use-v2-block-manager-spec",
    )
)


def gone_for_good(v: Verdict, facts: Facts, know: Knowledge) -> Iterator[Item]:
    """vLLM's speculation flags of before `--speculative-config`; they left before the versions that were looked at."""
    if v.launch.version is not None and key(v.launch.version) < (0, 8):
        return
    for a in v.arguments.given:
        bare = a.written.lstrip("-").replace("_", "-")
        if bare in _SPECULATIVE and not a.known:
            yield Item(bare, {"flag": a.written}, _at(a.place))


def config_keys(v: Verdict, facts: Facts, know: Knowledge) -> Iterator[Item]:
    """Keys of a configuration file that are no flags."""
    if v.launch.kind in ("vllm-config", "sglang-config"):
        yield from _unknown(v, facts, know)


def newer_flags(v: Verdict, facts: Facts, know: Knowledge) -> Iterator[Item]:
    """Flags that joined after the version that is pinned."""
    if v.launch.engine != "vllm" or v.launch.version is None:
        return
    mine = key(v.launch.version)
    first = {f: version for version, flags in know.history.vllm_first_seen.items() for f in flags}
    versions = sorted((key(x), x) for x in know.history.vllm_first_seen)
    for a in v.arguments.given:
        bare = a.written.lstrip("-").replace("_", "-")
        since = first.get(bare)
        if since is None:
            continue
        before = max((k for k, _ in versions if k < key(since)), default=(0, 8, 5))
        if mine <= before:
            yield Item(bare, {"flag": a.written, "since": since, "version": v.launch.version}, _at(a.place))


def _entry(a: Argument, v: Verdict, know: Knowledge) -> FlagEntry | None:
    table = know.flags(v.launch.engine)
    return table.table.flags.get(a.name) if table and a.known else None


def bad_values(v: Verdict, facts: Facts, know: Knowledge) -> Iterator[Item]:
    """Values that are none of a flag's choices or not of its type."""
    if v.launch.engine == "llama.cpp" and not _own_parser(v):
        return
    for a in v.arguments.given:
        e = _entry(a, v, know)
        if e is None or a.value is None or a.value.unknown or a.key is not None or a.value.startswith("{{"):
            continue
        if e.t == "flag" or a.name in (
            "flash-attn",
            "kv-cache-dtype",
            "quantization",
            "quantize",
            "cache-type-k",
            "cache-type-v",
        ):
            continue
        if e.c and not e.n:
            if a.value not in e.c:
                near = near_matches(a.value, e.c, n=1)
                hint = (f"Did you mean {near[0]}? " if near else "") + "It takes " + ", ".join(e.c[:12])
                yield Item(a.name, {"flag": a.written, "value": a.value[:80], "hint": hint}, _at(a.value), fix=hint)
        elif (
            e.t in ("int", "float")
            and not e.n
            and number(a.value) is None
            and a.value.lower() not in ("auto", "none", "all", "-1", "")
        ):
            hint = "A whole number is wanted" if e.t == "int" else "A number is wanted"
            yield Item(a.name, {"flag": a.written, "value": a.value[:80], "hint": hint}, _at(a.value), fix=hint)
        elif (
            e.t == "int"
            and v.launch.engine != "llama.cpp"
            and not e.n
            and (n := number(a.value)) is not None
            and n != int(n)
        ):
            yield Item(
                a.name,
                {"flag": a.written, "value": a.value[:80], "hint": "A whole number is wanted"},
                _at(a.value),
                fix="A whole number is wanted",
            )


def abbreviated(v: Verdict, facts: Facts, know: Knowledge) -> Iterator[Item]:
    """Flags written as a prefix of their name."""
    source = facts._seen.source
    for a in v.arguments.given:
        if a.abbreviated:
            yield Item(
                a.name,
                {"flag": a.written, "full": f"--{a.name}"},
                _at(a.place),
                rename_argument(a, f"--{a.name}", source),
            )


def stray_values(v: Verdict, facts: Facts, know: Knowledge) -> Iterator[Item]:
    """`true` behind a flag that takes no value."""
    if v.launch.engine not in ("vllm", "sglang") or v.launch.kind.endswith("-config") or not _own_parser(v):
        return
    for a in v.arguments.given:
        if a.stray is not None and a.place.startswith("-"):
            yield Item(a.name, {"flag": a.written, "value": a.stray}, _at(a.stray))


def missing_values(v: Verdict, facts: Facts, know: Knowledge) -> Iterator[Item]:
    """A flag at the end, or before another flag, that wants a value."""
    if not _own_parser(v):
        return
    for a in v.arguments.given:
        if a.missing and a.name != "flash-attn" and a.place.startswith("-"):
            yield Item(a.name, {"flag": a.written}, _at(a.place))


def bad_json(v: Verdict, facts: Facts, know: Knowledge) -> Iterator[Item]:
    """JSON arguments that are no JSON once quotes are gone."""
    for a in v.arguments.given:
        e = _entry(a, v, know)
        if e is None or e.t != "json" or a.value is None or a.value.unknown or a.key is not None or e.n:
            continue
        value = a.value.strip()
        if a.name == "compilation-config" and re.fullmatch(r"\d", value):
            continue
        if a.name in ("hf-overrides", "chat-template") and not value.startswith(("{", "[")):
            continue
        if a.name in (
            "json-model-override-args",
            "speculative-config",
            "kv-transfer-config",
            "limit-mm-per-prompt",
            "hf-overrides",
            "override-generation-config",
            "mm-processor-kwargs",
            "default-chat-template-kwargs",
            "model-loader-extra-config",
            "compilation-config",
            "allowed-origins",
        ):
            if "$" in value or re.search(r":\s*[,}]", value):
                continue  # a variable that is filled in later
            try:
                json.loads(value)
            except (ValueError, RecursionError):
                yield Item(a.name, {"flag": a.written, "value": value[:60]}, _at(a.value))


def removed_variables(v: Verdict, facts: Facts, know: Knowledge) -> Iterator[Item]:
    """VLLM_ variables that the launch's version no longer reads."""
    for g in know.history.vllm_removed_environment:
        value = v.launch.env.get(g.env or "")
        if value is not None and gone_now(g, v.launch.version or v.judged.engine_version):
            words = {"name": g.env or "", "last": g.last_seen or "", "instead": g.instead or "remove it"}
            fix = (
                f"Remove {g.env}"
                if g.instead is None or g.instead.startswith("remove")
                else f"Use {g.instead} in place of {g.env}"
            )
            yield Item(g.env or "", words, _at(value), fix=fix)


def unknown_variables(v: Verdict, facts: Facts, know: Knowledge) -> Iterator[Item]:
    """VLLM_ or OLLAMA_ variables that no version reads."""
    table = know.flags(v.launch.engine)
    if table is None or not table.table.environment:
        return
    prefix = {"vllm": "VLLM_", "ollama": "OLLAMA_"}.get(v.launch.engine)
    if prefix is None:
        return
    known = {*table.table.environment, *(g.env for g in know.history.vllm_removed_environment)}
    image_facts = facts["image.official"]
    for name, value in v.launch.env.items():
        if (
            not name.startswith(prefix)
            or name in known
            or name in ("VLLM_API_KEY", "VLLM_PORT", "VLLM_HOST_IP", "OLLAMA_API_KEY")
        ):
            continue
        if v.launch.engine == "vllm" and (
            re.search(
                r"^VLLM_(OMNI|GAUDI|HPU|SKIP_WARMUP|PROMPT_BS|DECODE_B|PROMPT_|GRAPH_|DELAYED|NIXL|PLUGINS|MLU|ASCEND|TT_|SPYRE|NEURON|TPU|RPC)",
                name,
            )
            or (v.launch.setup.container and not image_facts)
            or f"${name}" in facts._seen.source
            or f"${{{name}" in facts._seen.source
            or f"$({name})" in facts._seen.source
        ):
            continue
        near = near_matches(name, [n for n in known if n], n=1)
        hint = f"Did you mean {near[0]}?" if near else "Use the engine's flag, or remove it"
        yield Item(name, {"name": name, "hint": hint}, _at(value), fix=hint)


_SECRET = re.compile(
    r"^(hf_[A-Za-z0-9]{20,}|sk-[A-Za-z0-9_-]{16,}|nvapi-[A-Za-z0-9_-]{20,}|gh[pousr]_[A-Za-z0-9]{20,}|AKIA[A-Z0-9]{16})$"
)
_NO_SECRET = re.compile(
    r"^(\$|<|\{|your|my|change|example|xxx|token-abc123$|secret$|none$|null$|empty$|dummy|placeholder|sk-(no|your|xxx|ollama|1234|none|dummy|local|test)|EMPTY)",
    re.I,
)


def secrets(v: Verdict, facts: Facts, know: Knowledge) -> Iterator[Item]:
    """Tokens and keys that stand in the file."""
    for a in v.arguments.given:
        if (
            a.name in ("api-key", "hf-token", "admin-api-key")
            and a.value is not None
            and not a.value.unknown
            and _is_secret(a.value, 8)
        ):
            yield Item(a.written, {"where": a.written}, _at(a.value))
    for name, value in v.launch.env.items():
        if value.unknown or not value:
            continue
        if (_SECRET.match(value) and not _NO_SECRET.match(value)) or (
            re.search(r"(API_KEY|_TOKEN|SECRET|PASSWORD)$", name)
            and name not in ("HF_TOKEN_PATH",)
            and _is_secret(value, 16)
        ):
            yield Item(name, {"where": name}, _at(value))


def _is_secret(value: str, least: int) -> bool:
    return (
        len(value) >= least
        and not _NO_SECRET.match(value)
        and "/" not in value
        and " " not in value
        and "{" not in value
        and not value.lower().endswith(("_here", "-here"))
    )


def modelfile_deprecated(v: Verdict, facts: Facts, know: Knowledge) -> Iterator[Item]:
    """Deprecated PARAMETERs of a Modelfile."""
    table = know.flags("ollama")
    for name, value in v.launch.settings.items():
        if table is not None and name in table.table.deprecated_parameters:
            yield Item(name, {"name": name}, _at(value), edits=_whole_line(value, facts))


def modelfile_unknown(v: Verdict, facts: Facts, know: Knowledge) -> Iterator[Item]:
    """PARAMETERs that Ollama does not know."""
    table = know.flags("ollama")
    if table is None or v.launch.kind != "modelfile":
        return
    names = (*table.table.modelfile_parameters, *table.table.deprecated_parameters)
    for name, value in v.launch.settings.items():
        if name not in names:
            near = {"max_tokens": ("num_predict",), "context_length": ("num_ctx",)}.get(name) or near_matches(
                name, table.table.modelfile_parameters, n=1
            )
            hint = f"Did you mean {near[0]}?" if near else "Remove it"
            yield Item(name, {"name": name, "hint": hint}, _at(value), fix=hint)


def _whole_line(value: Text, facts: Facts) -> tuple[Edit, ...]:
    lines = facts._seen.source.splitlines()
    return (Edit(line=value.line, old=lines[value.line - 1], new=""),) if 0 < value.line <= len(lines) else ()


def kv_types(v: Verdict, facts: Facts, know: Knowledge) -> Iterator[Item]:
    """KV cache types that the engine does not have."""
    e = v.launch.engine
    table = know.flags(e)
    llama = ("f32", "f16", "bf16", "q8_0", "q4_0", "q4_1", "iq4_nl", "q5_0", "q5_1")
    known: tuple[str, ...] = {
        "llama.cpp": llama,
        "ollama": ("f16", "q8_0", "q4_0"),
        "sglang": ("auto", "fp8_e5m2", "fp8_e4m3", "mxfp8", "nvfp4", "fp4_mx_block16", "bf16", "bfloat16", "fp4_e2m1"),
        "lmdeploy": ("0", "4", "8", "16", "17", "42", "none", "int4", "int8", "fp8", "fp8_e5m2", "turbo_quant"),
    }.get(e, table.table.kv_cache_dtypes if table else ())
    found = [v.arguments.value(n) for n in ("kv-cache-dtype", "cache-type-k", "cache-type-v", "quant-policy")]
    if e == "ollama":
        found = [v.launch.env.get("OLLAMA_KV_CACHE_TYPE")]
    if e == "llama.cpp" and not _own_parser(v):
        return
    for value in found:
        if value and not value.unknown and known and value.lower() not in known:
            near = near_matches(value, known, n=2)
            hint = ("Did you mean " + " or ".join(near) + "? " if near else "") + "There are " + ", ".join(known[:12])
            yield Item(value, {"value": value, "hint": hint}, _at(value), fix=hint)


def quantizations(v: Verdict, facts: Facts, know: Knowledge) -> Iterator[Item]:
    """Quantization methods that the engine's version does not have."""
    a = v.arguments.value("quantization")
    table = know.flags(v.launch.engine)
    if a is None or a.unknown or table is None or not table.table.quantization_methods:
        return
    if v.launch.version is not None and key(v.launch.version) < (0, 26) and v.launch.engine == "vllm":
        return  # the list of older versions was not read
    if v.launch.engine == "sglang" and v.launch.version is not None and key(v.launch.version) < (0, 5, 10):
        return
    if a not in table.table.quantization_methods and a.lower() != "none":
        plugin = a in table.table.quantization_removed_to_plugin
        near = near_matches(a, table.table.quantization_methods, n=2)
        hint = (
            f"Install the vLLM plugin for {a} in the image, or use an AWQ, GPTQ or FP8 checkpoint"
            if plugin
            else (
                "Did you mean " + " or ".join(near) + "?"
                if near
                else "Remove --quantization: it is read from the checkpoint"
            )
        )
        yield Item(a, {"value": a, "hint": hint}, _at(a), fix=hint)


def helm_keys(v: Verdict, facts: Facts, know: Knowledge) -> Iterator[Item]:
    """Values that the production-stack chart does not know."""
    known = (
        "tensorParallelSize",
        "pipelineParallelSize",
        "maxModelLen",
        "dtype",
        "gpuMemoryUtilization",
        "maxLoras",
        "maxNumSeqs",
        "enablePrefixCaching",
        "enableChunkedPrefill",
        "extraArgs",
        "v0",
        "v1",
        "runner",
    )
    for place, line in v.launch.setup.places.items():
        if place.startswith("unknown-key:"):
            name = place.partition(":")[2]
            near = near_matches(name, known, n=1)
            hint = f"Did you mean {near[0]}?" if near else "The chart knows " + ", ".join(known[:8])
            yield Item(name, {"name": name, "hint": hint}, (line, 1), fix=hint)


def near_models(v: Verdict, facts: Facts, know: Knowledge) -> Iterator[Item]:
    """Hub ids that are one slip away from one of the catalogue."""
    m = v.reading.model
    if m is None or m.unknown or v.reading.named is not None or facts["model.hub_id"] is not True:
        return
    names = know.memo.get("hub ids")
    if names is None:
        names = know.memo["hub ids"] = [row.id for row in know.rules.model_index()]
    org = m.partition("/")[0].lower()
    mine = [n for n in names if n.lower().startswith(org + "/")]
    near = near_matches(m, mine, n=1)
    if (
        near
        and _close(m.lower(), near[0].lower())
        and re.sub(r"\d+", "", m.lower()) != re.sub(r"\d+", "", near[0].lower())
    ):
        yield Item(m, {"model": m, "near": near[0]}, _at(m), fix=f"Did you mean {near[0]}?")


def flash_values(v: Verdict, facts: Facts, know: Knowledge) -> Iterator[Item]:
    """`-fa` without on, off or auto."""
    source = facts._seen.source
    for a in v.arguments.given:
        if a.name != "flash-attn" or not a.place.startswith("-"):
            continue
        if a.missing or (
            a.value is not None
            and a.value.lower() not in ("on", "off", "auto", "1", "0", "true", "false", "enabled", "disabled")
        ):
            yield Item(
                "flash-attn",
                {"flag": a.written},
                _at(a.place),
                rename_argument(a._replace(value=None), f"{a.written} on", source),
            )


EACH: dict[str, Each] = {
    "removed_flags": removed_flags,
    "unknown_flags": unknown_flags,
    "newer_flags": newer_flags,
    "bad_values": bad_values,
    "abbreviated": abbreviated,
    "stray_values": stray_values,
    "missing_values": missing_values,
    "gone_for_good": gone_for_good,
    "config_keys": config_keys,
    "bad_json": bad_json,
    "removed_variables": removed_variables,
    "unknown_variables": unknown_variables,
    "secrets": secrets,
    "modelfile_deprecated": modelfile_deprecated,
    "modelfile_unknown": modelfile_unknown,
    "kv_types": kv_types,
    "quantizations": quantizations,
    "helm_keys": helm_keys,
    "near_models": near_models,
    "flash_values": flash_values,
}
BY_VERSION = frozenset(
    ("removed_flags", "unknown_flags", "removed_variables", "quantizations", "flash_values", "kv_types")
)
