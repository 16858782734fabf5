"""The words of a launch: what the program is called with, in lines that belong together.

A word is text or a variable that the user sets; each kind of file quotes it by its own filter.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
from msgspec.structs import replace

from advisor.catalog.launch_types import EngineStart
from advisor.decoding import Json
from advisor.record import Record, Value
from advisor.render.reference import ModelRef, local_name


class LaunchWord(Record, frozen=True, kw_only=True):
    """One word. With `variable` its value comes from the environment; `script` is what a script writes instead."""

    text: str = ""
    variable: str | None = None
    help: str = ""
    script: str | None = None


Line = list[LaunchWord]


class ModelWords(Value, frozen=True):
    """How the model is stated to the program."""

    form: tuple[str, ...]
    values: Mapping[str, LaunchWord]


KEY = LaunchWord(
    variable="API_KEY", help="the key that clients must show, since the server is reached from other machines"
)


def plain_word(text: str) -> LaunchWord:
    """A word that is what it says."""
    return LaunchWord(text=text)


def fill_form(form: Iterable[str], values: Mapping[str, LaunchWord]) -> Line:
    """A form with its `{name}` places filled. A place that is a whole word may be a variable."""
    out = []
    for word in form:
        whole = re.fullmatch(r"\{(\w+)\}", word)
        if whole:
            out.append(values[whole[1]])
            continue
        parts = re.findall(r"\{(\w+)\}", word)
        variable = next((values[p] for p in parts if values[p].variable), None)
        if variable is not None:  # only ever the model, at the end of a prefix such as `hf://`
            out.append(variable)
            continue
        out.append(plain_word(re.sub(r"\{(\w+)\}", lambda m: values[m[1]].text, word)))
    return out


def make_lines(
    start: EngineStart,
    program: tuple[str, ...],
    model: ModelWords,
    online: str | None,
    arguments: Iterable[Json],
    listen: Line,
    key: Line,
) -> list[Line]:
    """All words: the program with its model, one line an argument, where it listens."""
    model_line = fill_form(model.form, model.values)
    first = [plain_word(w) for w in program]
    out = [first if start.model_last else [*first, *model_line]]
    if start.online and online:
        out.append([plain_word(start.online), plain_word(online)])
    for a in arguments:
        out.append([plain_word(a["flag"])] + ([] if a["value"] is None else [plain_word(a["value"])]))
    out += [listen, key, model_line if start.model_last else []]
    return [x for x in out if x]


def make_model_words(
    ref: ModelRef, start: EngineStart, repository: tuple[str, ...] | None, path: str | None
) -> ModelWords:
    """The form in which the program is given the model, and what goes into it."""
    local = ref.path is not None
    asked = start.path if local else (repository or start.repository)
    name = ref.path if local else ref.repository
    if local and path is not None:
        name = path
    missing = LaunchWord(variable="MODEL", help=ref.missing or "")
    return ModelWords(
        asked if asked is not None else start.model,
        {
            "model": missing if name is None else plain_word(name),
            "download": missing if ref.download is None else plain_word(ref.download),
            "absolute": missing if ref.absolute is None else plain_word(ref.absolute),
            "tag": plain_word(ref.tag or ""),
            "served": plain_word(local_name(ref.path or ref.repository or ref.id)),
        },
    )


def make_start_words(seen: Json, start: EngineStart, ref: ModelRef, inside: bool) -> Json:
    """The words of the program outside and inside a container, and how it is given the key of its clients."""
    own = {n: LaunchWord(variable=n, help=what) for n, what in start.needs.items()}
    here = {
        "host": plain_word(seen["host"]),
        "address": plain_word(seen["address"]),
        "port": plain_word(str(seen["port"])),
    }
    key = [plain_word(start.key.flag), KEY] if start.key and start.key.flag else []
    maybe_key = key if seen["outside"] else []

    def words(
        program: tuple[str, ...], model: ModelWords, place: Mapping[str, LaunchWord], with_key: list[LaunchWord]
    ) -> Any:
        values = {**model.values, **place, **own}
        arguments_ = _renamed(seen["arguments"], start) if start.settings else ()
        made = make_lines(
            start, program, model, ref.online_quantization, arguments_, fill_form(start.listen, values), with_key
        )
        return _as_plain([*made[:1], *([fill_form(start.extra, values)] if start.extra else []), *made[1:]])

    out: Json = {
        "key": start.key.to_dict() if start.key else None,
        "needs": start.needs,
        "api": start.api,
        "start": start.to_dict(),
        "url": f"http://{'127.0.0.1' if seen['outside'] else seen['address']}:{seen['port']}{start.api}",
        "lines": words(start.program, make_model_words(ref, start, None, None), here, maybe_key),
        "unit_lines": words(start.program, make_model_words(ref, start, None, ref.absolute), here, maybe_key),
        "before": _words_before(start, ref, seen),
        "after": _words_after(start, ref, ref.absolute),
        "container": None,
    }
    image_start = start.image
    if image_start is None or not inside:
        return out
    program = start.program if image_start.program is None else image_start.program
    path = (f"/models/{ref.file}" if image_start.file else "/model") if ref.path is not None else None
    port = image_start.port or seen["own_port"]
    all_ = {"host": plain_word("0.0.0.0"), "address": plain_word("0.0.0.0"), "port": plain_word(str(port))}  # noqa: S104 - its own
    model = in_script = make_model_words(ref, start, image_start.repository, path)
    if path is not None and image_start.file:  # the script finds the file's real name when it runs
        in_script = replace(
            model, values={**model.values, "model": LaunchWord(text=path, script='"/models/${model##*/}"')}
        )
    out["container"] = {
        "port": port,
        "cache": image_start.cache,
        "ipc": image_start.ipc,
        "ulimits": image_start.ulimits,
        "file": image_start.file,
        "probe": image_start.probe,
        "lines": words(program, in_script, all_, maybe_key),
        "compose": words(program, model, all_, maybe_key),
        "keyed": words(program, model, all_, key),  # for places that others always reach
        "whole": words(start.program, model, all_, key),  # with the program itself, where the entrypoint is replaced
        "after": _words_after(start, ref, path),
    }
    return out


def _renamed(arguments_: list[Json], start: EngineStart) -> list[Json]:
    """Flags by a wrapper's own names; those it has none for as one text behind its flag for the rest."""
    if not start.rest:
        return arguments_
    own = [{**a, "flag": start.rename[a["flag"]]} for a in arguments_ if a["flag"] in start.rename]
    own = [{**a, "value": "999"} if a["value"] == "all" else a for a in own]  # more layers than any model has
    words = [w for a in arguments_ if a["flag"] not in start.rename for w in (a["flag"], a["value"]) if w is not None]
    return [*own, {"flag": f"{start.rest}={shlex.join(words)}", "value": None}] if words else own


def _words_before(start: EngineStart, ref: ModelRef, seen: Json) -> list[Json]:
    """What is run before the server, as words: LiteRT-LM imports the model under the name that requests give."""
    if not start.before:
        return []
    name = (ref.file if ref.path is not None else None) or seen["name"]
    needed = LaunchWord(variable="MODEL", help=start.needs.get("MODEL") or ref.missing or "")
    model = needed if ref.path is None else plain_word(ref.path)
    return _as_plain([fill_form(start.before, {"model": model, "name": plain_word(str(seen["served_name"] or name))})])[
        0
    ]


def _words_after(start: EngineStart, ref: ModelRef, path: str | None) -> list[Json]:
    """What is run once the server answers, as words: Ollama pulls the model, or makes it from a local file."""
    if not start.after:
        return []
    if ref.path is None:
        return _as_plain([fill_form(start.after, {"tag": plain_word(ref.tag or "")})])[0]
    make = 'printf "FROM %s\\n" "$1" > /tmp/Modelfile && exec ollama create "$2" -f /tmp/Modelfile'
    return _as_plain([[plain_word(w) for w in ("sh", "-c", make, "sh", path or ref.path, ref.tag or "")]])[0]


def _as_plain(words: list[list[LaunchWord]]) -> list[list[Json]]:
    return [[msgspec.structs.asdict(w) for w in line] for line in words]
