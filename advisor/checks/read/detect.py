"""Which reader reads a text: by what it holds, the name of the file only helps."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from pathlib import PurePath

from msgspec.structs import replace

from advisor.catalog.roots import list_plugins
from advisor.checks.read import (
    compose,
    configs,
    custom_resources,
    dockerfile,
    helm,
    kubernetes,
    kustomize,
    launchers,
    nomad,
    pods,
    scripts,
    units,
)
from advisor.checks.read.context import (
    ReaderContext,
    find_root,
    list_texts,
    make_finder,
    make_launch,
    make_launches,
    read_commands,
    read_environment,
    read_inside,
    read_nested,
)
from advisor.checks.read.launch import Launch, LaunchSetup, move_launch
from advisor.checks.read.recognise import parse_image
from advisor.errors import BadFile, Unread
from advisor.plugins import read_by_plugins
from advisor.yaml_places import (
    Located,
    Text,
    as_boolean,
    as_mapping,
    as_string,
    find_all,
    find_doubled_keys,
    first_line,
    lines_of,
    make_text,
    parse_documents,
    parse_readable_documents,
    place_like,
    value_at,
    walk,
)

_DOCKER_WORD = re.compile(r"^(RUN|CMD|ENTRYPOINT|COPY|WORKDIR|ENV|EXPOSE)\s", re.M)
_MODELFILE_WORD = re.compile(r"^(PARAMETER|TEMPLATE|SYSTEM|ADAPTER|MESSAGE|LICENSE|RENDERER|PARSER)\s", re.M | re.I)
_LEADING = re.compile(r"\A(?:[ \t]*(?:#[^\n]*)?\n)+")  # comments and empty lines
_PRESET = re.compile(r"^(?:model|hf|hf-repo|LLAMA_ARG_MODEL)[ \t]*=.*gguf", re.M | re.I)  # of llama-server
_JINJA_PLACE = re.compile(r"\{\{-?\s*([A-Za-z_]\w*)[^{}\n]*\}\}")
_HAS_TEMPLATE = re.compile(r"\{[{%]")  # whose branches may each have a key
_ENDS = {"markdown": (".md", ".mdx", ".rst"), "makefile": ("makefile", ".mk")}
_ENV_LINE = re.compile(r"^(export )?[A-Za-z_][A-Za-z0-9_]*=")
_COMMENT = re.compile(r"^\s*(#|$)")
_MENTIONS = re.compile(
    r"\b(vllm|sglang|trtllm-serve|text-generation-launcher|lmdeploy|llama-server|ollama|llama-swap|mlx_lm|mlc_llm)\b"
)
_OTHERS = re.compile(
    rb"extends|env_file|\.sh\b|^[ \t]*(?:source|\.)[ \t]|\bbuild[\"']?:|\.Values\b|include \""
    rb"|--config\b|--extra_llm_api_options|--models-preset",
    re.M,
)


def read_launches(source: str, name: str, line: int, ctx: ReaderContext) -> list[Launch]:
    """All launches of a text. Raises BadFile for what claims to be YAML and is none."""
    here = replace(ctx, line=line, read_text=read_launches)
    if name.lower().endswith((".bat", ".cmd")):  # where a line goes on behind `^`
        source = re.sub(r"\^[ \t]*(\r?\n)", r"\\\1", source)
    if name.lower().endswith((".yaml.j2", ".yml.j2")):  # a template of Jinja, with its places as variables
        name, source = name[:-3], re.sub(r"\{%[^\n]*?%\}", "", _JINJA_PLACE.sub(r"${\1}", source))
    commands = read_by_plugins(list_plugins(), source, name)
    if commands is not None:
        return [x for at, command in commands for x in scripts.read_script(command, replace(here, line=line + at - 1))]
    kind = detect_kind(source, name)
    reader = _READERS.get(kind)
    if reader is not None:
        return reader(source, here)
    filled = _read_filled(source, here)
    if filled is not None:
        return filled
    try:
        docs = parse_documents(source, here.file, line)
    except BadFile as e:
        if name.lower().endswith((".yaml", ".yml", ".json")):
            docs = parse_readable_documents(source, here.file, line) if here.problems is not None else []
            if not docs or here.problems is None:
                raise
            here.problems.append(e)
            return _documents(docs, here)
        found = scripts.read_script(source, here)
        if not found and (not ctx.depth or isinstance(e, Unread)):  # neither: what cannot be read is never well
            raise
        return found
    if here.doubled is not None and not here.depth and not _HAS_TEMPLATE.search(source):
        here.doubled.extend(find_doubled_keys(docs))
    if all(isinstance(d, Text) or d is None for d in docs):
        return scripts.read_script(source, here)
    return _documents(docs, here)


def _read_filled(source: str, ctx: ReaderContext) -> list[Launch] | None:
    """The launches of a chart's template, filled in with the chart's values; None for any other text, and for a
    template that is read as it is written."""
    filled = helm.fill_chart_template(source, ctx)
    if filled is None:
        return None
    try:
        docs = parse_documents(filled.text, ctx.file)
    except Unread:
        raise
    except BadFile:
        return None
    return [helm.put_back(x, filled) for x in _documents(docs, ctx)]


def detect_kind(source: str, name: str) -> str:
    """shell, makefile, systemd, dockerfile, modelfile, env, markdown, nomad, presets or yaml."""
    base = name.rpartition("/")[2].lower()
    head = _LEADING.sub("", source, count=1)[:20_000]
    if base.endswith((".yaml", ".yml", ".json")):
        return "yaml"
    if base.endswith((".hcl", ".nomad")) or (not base.endswith(".sh") and nomad.is_job(head)):
        return "nomad"
    if base.endswith(".ini") and _PRESET.search(head):
        return "presets"
    if re.search(r"^[ \t]*\[(Unit|Service)\]\s*$", head, re.M):
        return "systemd"
    if source.startswith("#!") or base.endswith((".sh", ".bash", ".sbatch", ".slurm", ".zsh")):
        return "shell"
    named = next((kind for kind, ends in _ENDS.items() if base.endswith(ends)), None)
    if named is not None:
        return named
    if re.search(r"^[ \t]*FROM\s+\S", head, re.M | re.I):
        docker, model = bool(_DOCKER_WORD.search(head)), bool(_MODELFILE_WORD.search(head))
        if "dockerfile" in base or "containerfile" in base or (docker and not model):
            return "dockerfile"
        if "modelfile" in base or model:
            return "modelfile"
    if "dockerfile" in base or "containerfile" in base:
        return "dockerfile"
    if "modelfile" in base or (_MODELFILE_WORD.match(head) and not _DOCKER_WORD.search(head)):
        return "modelfile"
    lines = [x for x in lines_of(head) if not _COMMENT.match(x)][:200]
    if base.endswith(".env") or base.startswith(".env") or ".env." in base:
        return "env"
    if (
        lines
        and all(_ENV_LINE.match(x) for x in lines)
        and not any(re.search(r"\s\w", x.partition("=")[2].strip("\"'")) for x in lines)
    ):
        return "env"
    if re.search(r"^[ \t]*(- )?[\"']?[\w./-]+[\"']?:(\s|$)", head, re.M) or head.lstrip()[:1] in ("{", "["):
        return "yaml"
    return "shell"


def _documents(docs: list[Located], ctx: ReaderContext) -> list[Launch]:
    built = [d for d in docs if kustomize.is_kustomization(d, ctx.file)]
    if built:
        return [x for d in built for x in kustomize.read_kustomization(as_mapping(d), ctx)]
    objects = [o for d in docs for o in kubernetes.flatten_lists(d) if o.get("apiVersion") is not None]
    out = kubernetes.read_objects(objects, ctx) if objects else []
    for doc in docs:
        if isinstance(doc, dict) and not (doc.get("kind") is not None and doc.get("apiVersion") is not None):
            out += _document(doc, ctx)
        elif isinstance(doc, list):
            out += read_generic(doc, ctx) + _list_templates(doc, ctx)
    return out


def _list_templates(tasks: list[Located], ctx: ReaderContext) -> list[Launch]:
    """The launches of the templates that tasks of an Ansible role put in place. They stand where the task does."""
    out: list[Launch] = []
    for word in walk(tasks) if not ctx.depth else ():
        if isinstance(word, Text) and word.endswith(".j2"):
            text = read_inside(ctx.folder, f"../templates/{word}", find_root(ctx)) or ""
            found = read_launches(text, word, 1, replace(ctx, depth=ctx.depth + 1))
            out += [_put_at(x, word) for x in found]
    return out


def _put_at(launch: Launch, at: Text) -> Launch:
    return move_launch(launch, lambda w: make_text(w, at.line, at.column, w.unknown), lambda _: at.line)


def _document(doc: dict[str, Located], ctx: ReaderContext) -> list[Launch]:
    """One YAML or JSON document that is no Kubernetes object."""
    services = doc.get("services")
    if isinstance(services, dict) and any(
        isinstance(s, dict) and ({"image", "build", "command", "extends"} & set(s)) for s in services.values()
    ):
        return compose.read_document(doc, ctx)
    if any(isinstance(value_at(m, "cmd"), Text) for m in as_mapping(doc, "models").values()):
        return configs.read_llama_swap(doc, ctx)
    charted = helm.read_known_chart(doc, ctx)
    if charted is not None:
        return charted
    if isinstance(doc.get("containers"), list) and any(
        k in doc for k in ("chain", "forward_stats", "docker", "server", "rate_limit", "startup_wait")
    ):
        return launchers.read_infernet(doc, ctx)
    if isinstance(value_at(doc, "model", "model_id"), Text):
        return launchers.read_recipe(doc, ctx)
    if isinstance(value_at(doc, "model", "container"), Text) and isinstance(doc.get("resources"), dict):
        return launchers.read_srt_slurm(doc, ctx)
    if isinstance(doc.get("run"), Text) and ("resources" in doc or "envs" in doc or "setup" in doc):
        return launchers.read_skypilot(doc, ctx)
    if helm.is_app_template(doc):
        return helm.read_values(doc, ctx)
    if custom_resources.is_serve_config(doc):
        return custom_resources.read_serve_config(doc, ctx, None, LaunchSetup(), "yaml")
    listed = launchers.read_model_list(doc, ctx)
    if listed:
        return listed
    engine = configs.find_flags_engine(doc, ctx)
    if engine is not None:
        return configs.read_flags_file(doc, engine, ctx)
    found = helm.read_subcharts(doc, ctx)
    return found or read_generic(doc, ctx)


def read_generic(doc: object, ctx: ReaderContext) -> list[Launch]:
    """Launches in YAML of an unknown kind: containers (`image` next to `args`), and texts that hold a command."""
    out = pods.read_pod(doc, ctx, None)
    if out:
        return out
    for body in find_all(doc, "image"):
        words = body.get("args") or body.get("command")
        image = as_string(body, "image") or _repository(body.get("image"))
        if image is None or words is None or parse_image(image, ctx.know).entry is None:
            continue
        env, _ = read_environment(body.get("env"))
        found = make_finder(ctx).container(
            image, None, list_texts(words), env, LaunchSetup(container=True, image=image)
        )
        out += make_launches(ctx, "yaml", found, as_string(body, "name"))
    if out:
        return out
    for body in find_all(doc, "servingEngineSpec"):
        if isinstance(value_at(body, "servingEngineSpec", "modelSpec"), list):
            out += helm.read_known_chart(body, ctx) or []
    for body in find_all(doc, "image") if not out else ():
        image = as_string(body, "image") or _repository(body.get("image"))
        entry = parse_image(image, ctx.know).entry if image is not None else None
        if entry is None or entry.entry not in ("serve", "opaque") or as_boolean(body, "disabled") is True:
            continue
        setup, open_ = LaunchSetup(container=True, image=str(image)), ("its arguments: they stand elsewhere",)
        holders = [x for x in find_all(doc, "args") if list_texts(x.get("args"))]
        found = []
        if len(holders) == 1:  # values of a chart: the words stand in one block, the image in another
            command = list_texts(holders[0].get("command")) or None
            env, _ = read_environment(holders[0].get("env"))
            found = make_finder(ctx).container(image, command, list_texts(holders[0]["args"]), env, setup)
        out += make_launches(ctx, "yaml", found, None) or [
            make_launch(ctx, None, body, entry.engine, "yaml", setup=setup, unresolved=open_)
        ]
    if out:
        return out
    for value in walk(doc):
        if isinstance(value, Text) and _MENTIONS.search(value):
            if "```" in value:
                out += _fenced(value, replace(ctx, line=first_line(value)))
            elif "\n" in value or " " in value:
                out += read_commands(ctx, "yaml", value) or read_nested(ctx, value) or _templated(value, ctx)
    return out


def _templated(value: Text, ctx: ReaderContext) -> list[Launch]:
    """A command inside a template's quotes: `{{ 'python3 -m vllm.entrypoints...' if ... }}`."""
    quoted = re.findall(r"'([^']*)'", value) if "{{" in value else ()
    line = first_line(value)
    found = [x for q in quoted if len(q) > 2 for x in read_commands(ctx, "template", make_text(q, line))]
    return [replace(x, unresolved=("a template around the command",)) for x in found]


def _repository(image: object) -> Text | None:
    repository, tag = as_string(image, "repository"), as_string(image, "tag")
    if repository is None:
        return None
    return place_like(f"{repository}:{tag}", repository) if tag else repository


def _fenced(source: str, ctx: ReaderContext) -> list[Launch]:
    """The launches of the fenced code blocks of a Markdown text."""
    out: list[Launch] = []
    block: list[str] = []
    begin = 0
    for n, line in enumerate(lines_of(source), ctx.line):
        if line.lstrip().startswith("```"):
            if begin:
                body = make_text("\n".join(block), begin + 1)
                if _MENTIONS.search(body):
                    out += read_commands(ctx, "markdown", body)
                begin, block = 0, []
            else:
                begin = n
        elif begin:
            block.append(line)
    return out


def _presets(source: str, ctx: ReaderContext) -> list[Launch]:
    """A file of presets of llama-server, as the server reads it that it is given to."""
    return scripts.read_script(f"llama-server --models-preset {shlex.quote(PurePath(ctx.file).name)}", ctx)


_READERS: dict[str, Callable[[str, ReaderContext], list[Launch]]] = {
    "shell": scripts.read_script, "systemd": units.read_systemd, "dockerfile": dockerfile.read_dockerfile,
    "modelfile": configs.read_modelfile, "env": scripts.read, "nomad": nomad.read_job, "markdown": _fenced,
    "makefile": scripts.read_makefile,
    "presets": _presets
}  # fmt: skip


def reads_others(source: bytes, name: str) -> bool:
    """Whether a text names other files that are read with it."""
    if PurePath(name).stem.lower() == "kustomization" or PurePath(name).name in compose.BY_ITSELF:
        return True
    return _OTHERS.search(source) is not None
