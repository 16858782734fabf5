"""The words of a launch: what the program is called with, in lines that belong together.

A word is text or a variable that the user sets; each kind of file quotes it by its own filter.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from advisor.catalog.launch_types import EngineStart
from advisor.record import Record, Value


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
    arguments: Iterable[Mapping[str, Any]],
    listen: Line,
    key: Line,
) -> list[Line]:
    """All words: the program with its model, one line an argument, where it listens."""
    told = fill_form(model.form, model.values)
    first = [plain_word(w) for w in program]
    out = [first if start.model_last else [*first, *told]]
    if start.online and online:
        out.append([plain_word(start.online), plain_word(online)])
    for a in arguments:
        out.append([plain_word(a["flag"])] + ([] if a["value"] is None else [plain_word(a["value"])]))
    out += [listen, key, told if start.model_last else []]
    return [x for x in out if x]
