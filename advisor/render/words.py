"""The words of a launch: what the program is called with, in lines that belong together.

A word is text or a variable that the user sets; each kind of file quotes it by its own filter.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping, Set

import msgspec
from msgspec.structs import replace

from advisor import formats
from advisor.catalog import Catalog
from advisor.catalog.downloads import list_repositories
from advisor.catalog.launch_types import EngineStart, ModelTags
from advisor.catalog.types import Engine, Quantization
from advisor.decoding import Json
from advisor.deployment import Deployment
from advisor.models.types import Model
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


KEY = LaunchWord(
    variable="API_KEY", help="the key that clients must show, since the server is reached from other machines"
)


class ModelRef(Record, frozen=True, kw_only=True):
    """How the engine is given which model: path, repository or tag; `missing` says what the user must bring."""

    id: str
    quantization: str
    path: str | None = None  # as one argument: never taken for an option
    absolute: str | None = None  # `path` for files that are used from another folder
    folder: str | None = None  # its folder, and its name there
    file: str | None = None
    repository: str | None = None
    download: str | None = None  # repository and label of one GGUF file in it, as llama-server -hf takes it
    tag: str | None = None  # Ollama's name
    missing: str | None = None  # no download is known: what to provide
    online_quantization: str | None = None  # the engine quantizes the 16-bit checkpoint while loading


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
        program: tuple[str, ...], model: ModelWords, place: Mapping[str, LaunchWord], with_key: Line
    ) -> list[list[Json]]:
        values = {**model.values, **place, **own}
        arguments_ = _renamed(seen["arguments"], start) if start.settings else ()
        listen, extra = fill_form(start.listen, values), [fill_form(start.extra, values)] if start.extra else []
        made = make_lines(start, program, model, ref.online_quantization, arguments_, listen, with_key)
        return [_as_plain(line) for line in (*made[:1], *extra, *made[1:])]

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


def is_file_of_engine(argument: Json, start: EngineStart) -> bool:
    """Whether a flag's value, where nobody asked for it, is a file of the engine's repository."""
    return argument["because"] != "as asked" and str(argument["value"]).startswith(tuple(start.files))


def _words_before(start: EngineStart, ref: ModelRef, seen: Json) -> list[Json]:
    """What is run before the server, as words: LiteRT-LM imports the model under the name that requests give; a file of
    the engine's repository that a recipe names is fetched."""
    named = next((a["value"] for a in seen["arguments"] if is_file_of_engine(a, start)), None)
    if named is not None:
        folder, address = next((f, x) for f, x in start.files.items() if named.startswith(f))
        url = address.replace("{version}", seen["engine"]["version"] or "") + named.removeprefix(folder)
        return _as_plain([plain_word(w) for w in ("curl", "-fsSL", "--create-dirs", "-o", named, url)])
    if not start.before:
        return []
    name = (ref.file if ref.path is not None else None) or seen["name"]
    needed = LaunchWord(variable="MODEL", help=start.needs.get("MODEL") or ref.missing or "")
    model = needed if ref.path is None else plain_word(ref.path)
    values = {"model": model, "name": plain_word(str(seen["served_name"] or name))}
    return _as_plain(fill_form(start.before, values))


def _words_after(start: EngineStart, ref: ModelRef, path: str | None) -> list[Json]:
    """What is run once the server answers, as words: Ollama pulls the model, or makes it from a local file."""
    if not start.after:
        return []
    if ref.path is None:
        return _as_plain(fill_form(start.after, {"tag": plain_word(ref.tag or "")}))
    make = 'printf "FROM %s\\n" "$1" > /tmp/Modelfile && exec ollama create "$2" -f /tmp/Modelfile'
    return _as_plain([plain_word(w) for w in ("sh", "-c", make, "sh", path or ref.path, ref.tag or "")])


def _as_plain(line: Line) -> list[Json]:
    return [msgspec.structs.asdict(w) for w in line]


def make_model_reference(deployment: Deployment, rules: Catalog) -> ModelRef:
    """Where the engine gets the weights from."""
    quantization, entry = rules.quantization(deployment.quantization), rules.engines()[deployment.engine]
    tags = entry.start.tags if entry.start else None
    plain = ModelRef(id=deployment.model.id, quantization=deployment.quantization)
    if deployment.model_path:
        from advisor.models.headers import read_origin

        come = read_origin(deployment.model_path)  # headers alone: the engine downloads the rest
        if come is None:
            return make_local_reference(plain, deployment.model_path)
        label = f"{come.repository}:{deployment.quantization}"
        if tags:
            return replace(plain, tag=tags.repository.replace("{download}", label))
        return replace(plain, repository=come.repository, download=label if quantization.family == "gguf" else None)
    if tags and (tag := _find_tag(deployment.model, quantization, tags)):
        return replace(plain, tag=tag)
    if quantization.family == "gguf" or formats.own_family(entry, rules) == "gguf":
        return _gguf_ref(deployment, quantization, plain, tags)
    native = (deployment.model.native_quant or "").lower()
    if quantization.family == "none" or native.startswith(quantization.id.lower()):
        return replace(plain, repository=deployment.model.id)
    vendors = {x.vendor for x in deployment.machine.usable_devices} if deployment.machine else set()
    known = find_repository(deployment.model, quantization, vendors)
    if known:
        return replace(plain, repository=known)
    online = entry.start.online_formats.get(quantization.id) if entry.start else None
    if online:
        return replace(plain, repository=deployment.model.id, online_quantization=online)
    return replace(
        plain,
        missing=f"a checkpoint of {deployment.model.id} in {quantization.id}: none is in the catalogue, so name yours",
    )


def find_repository(model: Model, quantization: Quantization, vendors: Set[str]) -> str | None:
    """The preferred repository of the model in a format that is not GGUF, for devices of these vendors; None if none
    is known."""
    known = [*list_repositories(model, quantization.id)]
    if quantization.family == "mlx":
        size = model.published.get("mlx:" + quantization.id.removeprefix("MLX-"))
        known[:0] = [size.repo] if size and size.repo else []
    # checkpoints of a maker of cards are made with its tools, for its cards
    return next((r for r in known if not (r.split("/")[0] in ("nvidia", "amd") and vendors - {r.split("/")[0]})), None)


def make_local_reference(plain: ModelRef, path: str) -> ModelRef:
    """A model on disk. A relative path that starts with a dash gets `./`, or programs would read an option."""
    from pathlib import Path

    whole = Path(path).absolute()
    safe = f"./{path}" if path.startswith("-") else path
    return replace(
        plain, path=safe, absolute=str(whole), folder=str(whole.parent), file=whole.name, tag=local_name(path)
    )


def make_declaration(ref: ModelRef, entry: Engine, target: str, rules: Catalog) -> str | None:
    """The comment that tells `advise check` which model of the catalogue it is, where the file's words do not."""
    tags = entry.start.tags if entry.start else None
    words = ref.path is None and ref.missing is None and not (tags and target in tags.told_later)
    if words or not any(m.id == ref.id for m in rules.model_index()):
        return None
    return f"advise: model={ref.id} quant={ref.quantization}"


def _find_tag(model: Model, quantization: Quantization, tags: ModelTags) -> str | None:
    """The tag of the library, or of a GGUF repository that can be pulled; None where neither is known."""
    tag = next((a for a in model.aliases if re.fullmatch(r"[a-z0-9._-]+:[a-z0-9._-]+", a)), None)
    if tag and quantization.id in tags.formats:
        return tag
    repository = find_gguf_repository(model, quantization)
    if repository is None or is_sharded(model, quantization, tags):
        return None
    return tags.repository.replace("{download}", f"{repository}:{quantization.id}")


def is_sharded(model: Model, quantization: Quantization, tags: ModelTags) -> bool:
    """Whether the file of a format is larger than an engine pulls, since publishers shard it."""
    return tags.largest_pull is not None and model.params_total * quantization.bits_nominal / 8 > tags.largest_pull


def find_gguf_repository(model: Model, quantization: Quantization, prediction: bool = False) -> str | None:
    """The first repository of GGUF files that has the format, or lists none and is not named after another one; None
    where there is none. `prediction`: with the model's prediction block, by the name, where there is such a one."""
    types = {d.repository: d.types for d in model.downloads if d.types}
    for repository in sorted(model.gguf_repos, key=lambda r: ("-mtp-" in r.lower()) is not prediction):
        if repository in types:  # llama.cpp and the hub look for the label in the names of files
            if {quantization.id, f"UD-{quantization.id}"} & {*types[repository]}:
                return repository
        else:
            named = re.search(r"[-_.](I?Q\d(?:_[A-Z0-9]+)*)(?![A-Za-z0-9])", repository, re.I)
            if named is None or named[1].upper() == quantization.id:
                return repository
    return None


def has_gguf(model: Model, quantization: Quantization, tags: ModelTags | None) -> bool:
    """Whether a file of a GGUF format can be had from where an engine gets it."""
    if tags is not None:
        return _find_tag(model, quantization, tags) is not None
    return find_gguf_repository(model, quantization) is not None


def _gguf_ref(deployment: Deployment, quantization: Quantization, plain: ModelRef, tags: ModelTags | None) -> ModelRef:
    model, settings = deployment.model, deployment.settings
    repo = find_gguf_repository(model, quantization, "mtp" in str(settings.get("spec-type")))
    if repo and tags is None:
        # llama.cpp looks for the label in the repository's file names, where MXFP4_MOE is just MXFP4
        label = "MXFP4" if quantization.id == "MXFP4_MOE" else quantization.id
        return replace(plain, repository=repo, download=f"{repo}:{label}")
    missing = (
        f"the file of {repo} in {quantization.id}, merged from its shards (llama-gguf-split --merge): sharded files "
        "cannot be pulled"
        if repo
        else f"a GGUF file of {model.id} in {quantization.id}: none is known, so make it (convert_hf_to_gguf.py, then "
        f"llama-quantize … {quantization.id}) and put it here"
    )
    name = f"{local_name(model.id)}-{quantization.id}.gguf"
    return replace(plain, path=name, absolute=name, folder=".", file=name, tag=local_name(name), missing=missing)


def local_name(text: str) -> str:
    """The last part of an id or path without its suffix, as a name that Ollama and servers accept."""
    name = re.sub(r"\.gguf$", "", re.split(r"[\\/]", text.rstrip("/\\"))[-1])
    return re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-._") or "model"
