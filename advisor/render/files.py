"""Rendering one target of one deployment into files."""

from __future__ import annotations

import re
from pathlib import Path

from advisor.catalog import Catalog
from advisor.catalog.launch_types import Installation, InstallLane
from advisor.decoding import Json
from advisor.deployment import Deployment, Workload
from advisor.errors import BadInput
from advisor.record import Record
from advisor.render import matrix
from advisor.render.context import make_template_context
from advisor.render.environment import make_environment, quote_shell, shell_call, template_roots
from advisor.session import Session

IN_IMAGES = matrix.IN_IMAGES
SHARED = "targets"  # folder of the templates that serve all engines


class LaunchFile(Record, frozen=True, kw_only=True):
    """One file of a launch: name inside the output folder, content, and whether it is a program."""

    name: str
    content: str
    executable: bool = False


PULL = "docker pull"


class QuickStart(Record, frozen=True, kw_only=True):
    """`install` is None where no single line installs the engine on this system."""

    install: str | None
    test: str


def list_target_names(rules: Catalog) -> list[str]:
    """All targets there are, in a fixed order."""
    return list(matrix.load_targets(rules).targets)


def list_targets(engine_id: str, rules: Catalog) -> list[str]:
    """Targets of this engine, in a fixed order: the matrix's, and those with a template in a user's own folder."""
    roots = template_roots()
    own = {t for t in list_target_names(rules) for r in roots[:-1] if (r / engine_id / f"{t}.j2").is_file()}
    return [t for t in list_target_names(rules) if t in own or matrix.find_target_support(engine_id, t, rules)[0]]


def render_command(deployment: Deployment, session: Session) -> str:
    """The shell command that starts the deployment, ready to paste. Raises BadInput where there is no template."""
    entry = session.rules.engine(deployment.engine)
    there, _ = matrix.find_target_support(entry.id, "command", session.rules)
    if there and not _has_own_template(entry.id, "command"):
        # what targets/command.j2 says, without the time that Jinja takes to load
        seen, machine = make_template_context(deployment, entry, session, brief=True), deployment.machine
        before = shell_call([seen["before"]]) + "\n" if seen["before"] else ""
        if machine is not None and machine.os == "windows":  # whose shells continue no line as others do
            words = {k: str(v).replace("'", "''") for k, v in seen["environment"].items()}
            variables = "".join(f"$env:{k} = '{v}'; " for k, v in words.items())
            return before + variables + shell_call(seen["lines"], " ")
        variables = "".join(f"{k}={quote_shell(v)} " for k, v in seen["environment"].items())
        return before + variables + shell_call(seen["lines"])
    return _render(deployment, "command", session, script=False)[1].strip()


def render_container_command(deployment: Deployment, session: Session) -> str:
    """The shell command that starts the deployment in the engine's image, ready to paste. Raises BadInput where there
    is no template."""
    entry = session.rules.engine(deployment.engine)
    if not _has_own_template(entry.id, "docker"):
        seen = _see(deployment, "docker", session, headed=False)
        if not seen["outside"] and seen["model"]["path"] is None:
            return str(seen["docker_run"])  # what targets/docker.j2 says, without the time that Jinja takes to load
    lines = _render(deployment, "docker", session, script=False)[1].strip().splitlines()
    return "\n".join(x.removeprefix("exec ") for x in lines if not x.startswith("#") and x != "set -eu")


def _has_own_template(engine_id: str, target: str) -> bool:
    """Whether an engine's own or a user's template stands before the shared one."""
    *users, shipped = template_roots()
    return (shipped / engine_id / f"{target}.j2").is_file() or any(
        (r / folder / f"{target}.j2").is_file() for r in users for folder in (engine_id, SHARED)
    )


def render_files(
    deployment: Deployment,
    target: str,
    session: Session,
    work: Workload | None = None,
    verbose: bool = False,
    copies: int = 1,
) -> tuple[LaunchFile, ...]:
    """The files of one target; with `verbose` the reason of each setting as a comment. `copies`: equal pods of it.

    Raises BadInput for a target this engine does not have.
    """
    if target not in list_target_names(session.rules):
        from advisor.near import near_matches

        known = list_target_names(session.rules)
        raise BadInput(f"unknown target {target!r}; there are {', '.join(known)}.", near_matches(target, known))
    name, content = _render(deployment, target, session, script=True, work=work, verbose=verbose, copies=copies)
    program = content.startswith("#!")
    return (LaunchFile(name=name, content=content, executable=program),)


def _see(
    deployment: Deployment, target: str, session: Session, work: Workload | None = None, headed: bool = True
) -> Json:
    """The names that the target's template may use. Raises BadInput for a target that the engine does not have here."""
    rules = session.rules
    entry = rules.engine(deployment.engine)
    if target not in list_targets(entry.id, rules):
        have = ", ".join(list_targets(entry.id, rules)) or "no target yet"
        why = matrix.find_target_support(entry.id, target, rules)[1]
        raise BadInput(f"{entry.name} has no {target} file: {why}. It has {have}")
    seen = make_template_context(deployment, entry, session, target, work, headed=headed)
    if target in IN_IMAGES and seen["image"] is None:
        raise BadInput(f"{entry.name}: no container image is known for {seen['vendor']} devices; take --target command")
    return seen


def _render(
    deployment: Deployment,
    target: str,
    session: Session,
    script: bool,
    work: Workload | None = None,
    verbose: bool = False,
    copies: int = 1,
) -> tuple[str, str]:
    """(file name, content)"""
    rules = session.rules
    seen = _see(deployment, target, session, work)
    file = matrix.load_targets(rules).targets[target].file.replace("{name}", seen["name"])
    values = {**seen, "script": script, "verbose": verbose, "target": target, "copies": copies}
    return file, _fill((seen["engine"]["id"], SHARED), target, values)


def make_readme(
    deployment: Deployment,
    session: Session,
    files: list[tuple[str, str]],
    absent: list[tuple[str, str]],
    work: Workload | None = None,
) -> LaunchFile:
    """README.md of a folder of launch files: what to run first. `files` are (target, name)."""
    rules = session.rules
    entry = rules.engine(deployment.engine)
    known = matrix.load_targets(rules).targets
    how = entry.installation
    seen = make_template_context(deployment, entry, session, "readme", work)
    rows = [{"name": name, "what": known[t].what, "run": _run(known[t], name, seen["name"])} for t, name in files]
    values: Json = {
        **seen,
        "files": rows,
        "listed": [name for _, name in files],
        # install.sh pulls a container image on this system: then docker-run.sh starts it, not run.sh
        "as_image": how is not None and how.image and seen["os"] not in how.systems,
        "absent": [{"target": t, "because": why} for t, why in absent],
        "script": True,
        "verbose": False,
        "target": "readme",
    }
    return LaunchFile(name="README.md", content=_fill((entry.id, SHARED), "readme", values))


def render_client(url: str, model: str | None, target: str, rules: Catalog) -> tuple[LaunchFile, ...]:
    """Files for an endpoint that is there already. Raises BadInput for other targets than a client and a router."""
    entry = next(e for e in rules.engines().values() if e.remote == "endpoint")
    if not matrix.find_target_support(entry.id, target, rules)[0]:
        raise BadInput(f"an endpoint that is there already has no {target} file; take openai-client or litellm")
    if not re.fullmatch(r"https?://[^\s\x00-\x20\"'<>\\]{1,500}", url):
        raise BadInput(f"endpoint {url[:80]!r}: an address like http://host:8000/v1 is expected")
    values: Json = {
        "engine": {"id": entry.id, "name": entry.name, "version": None},
        "model": {"id": model or "MODEL", "quantization": "as served", "repository": model, "missing": None,
                  "declared": None},
        "served_name": model, "url": url.rstrip("/"), "api": "", "kind": "chat", "outside": True, "key": True,
        "hardware": None, "left_out": [], "decided": [], "venv": False,
        "load": {"output_tokens": 256, "concurrency": 8, "prompt_tokens": 1024},
        "verbose": False, "script": True, "target": target,
    }  # fmt: skip
    name = matrix.load_targets(rules).targets[target].file
    return (LaunchFile(name=name, content=_fill((entry.id, SHARED), target, values)),)


def _run(target: matrix.LaunchTarget, file: str, name: str) -> str:
    """How a file is started, as a cell of the README's table."""
    text = target.run.replace("{file}", file).replace("{name}", name)
    return text if " " not in file and ("(" in text or "merge" in text) else f"`{text}`"


def render_together(ds: tuple[Deployment, ...], session: Session) -> tuple[LaunchFile, ...]:
    """One file that holds several models, one of which runs at a time. Raises BadInput for two of one name."""
    rules = session.rules
    target = matrix.find_joint_target(rules)
    servers: list[Json] = []
    seen: Json = {}
    for deployment in ds:
        entry = rules.engine(deployment.engine)
        there, why = matrix.find_target_support(entry.id, target, rules)
        if not there:
            raise BadInput(f"{entry.name} has no {target} file: {why}")
        mine = make_template_context(deployment, entry, session, target)
        servers += mine["servers"]
        seen = seen or mine
    labels = [s["label"] for s in servers]
    twice = next((x for x in labels if labels.count(x) > 1), None)
    if twice is not None:
        raise BadInput(f"{twice} is named twice; {target} tells its models apart by name")
    values = {**seen, "servers": servers, "script": True, "verbose": False, "target": target}
    name = matrix.load_targets(rules).targets[target].file
    return (LaunchFile(name=name, content=_fill((SHARED,), target, values)),)


def _fill(folders: tuple[str, ...], target: str, values: Json) -> str:
    """The target's template of the first folder that has one, with its values. Raises BadInput for one that is wrong (a
    user's own may be)."""
    from jinja2 import TemplateError, TemplateSyntaxError

    candidates = [f"{folder}/{target}.j2" for folder in folders]
    name = candidates[0]
    try:
        template = make_environment(tuple(template_roots())).select_template(candidates)
        name = template.name or name
        text: str = template.render(**values)
    except TemplateSyntaxError as e:
        raise BadInput(f"template {e.name or name}, line {e.lineno}: {e.message}") from None
    except (TemplateError, TypeError, ValueError, ArithmeticError, LookupError, RecursionError) as e:
        raise BadInput(f"template {name}: {e or type(e).__name__}") from None
    return text


def write_files(files: tuple[LaunchFile, ...], folder: Path, force: bool = False) -> list[Path]:
    """Write the files into `folder` (made if absent).

    Raises BadInput before anything is written if one is there already (unless `force`) or a value is not plain text.
    """
    import os

    if folder.exists() and not folder.is_dir():
        raise BadInput(f"{folder} is a file: the files are written into a folder")
    paths = [folder / f.name for f in files]
    there = [p.name for p in paths if os.path.lexists(p)]
    if there and not force:
        raise BadInput(f"{folder}: {', '.join(there)} is there already; --force overwrites it")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for path, launch_file in zip(paths, files, strict=True):
            if path.is_symlink():
                path.unlink()  # the link is replaced, what it points to is not touched
            path.write_text(launch_file.content, encoding="utf-8", newline="\n")  # a shell reads it
            if launch_file.executable:
                path.chmod(0o755)
    except (OSError, ValueError) as e:
        raise BadInput(f"{folder}: cannot be written: {getattr(e, 'strerror', None) or e}") from None
    return paths


def render_every(
    deployment: Deployment, session: Session, workload: Workload | None = None, reasons: bool = False
) -> tuple[LaunchFile, ...]:
    """Every file that this engine and machine allow, and a README that says what to run and what is absent.

    Raises BadInput where there is none.
    """
    files: list[tuple[str, LaunchFile]] = []
    absent: list[tuple[str, str]] = []
    for target in list_targets(deployment.engine, session.rules):
        try:
            files += [(target, f) for f in render_files(deployment, target, session, workload, reasons)]
        except BadInput as e:
            absent.append((target, e.message))
    if not files:
        raise BadInput(f"{deployment.engine}: nothing can be rendered for this machine")
    return (*(f for _, f in files), make_readme(deployment, session, [(t, f.name) for t, f in files], absent, workload))


def make_quick_start(deployment: Deployment, session: Session) -> QuickStart:
    """The two lines for a deployment. Raises BadInput for values no command can hold."""
    entry = session.rules.engine(deployment.engine)
    seen = make_template_context(deployment, entry, session, brief=True)
    version = str(seen["engine"]["version"] or "")
    install = _install(entry.installation, version, seen) if entry.installation else None
    key = ' -H "Authorization: Bearer $API_KEY"' if seen["outside"] and seen["key"] else ""
    return QuickStart(install=install, test=f"curl{key} {quote_shell(seen['url'] + '/models')}")


def _install(how: Installation, version: str, seen: Json) -> str | None:
    """As templates/targets/install.j2 decides, in one line."""
    lane = how.lanes.get(str(seen["vendor"]), InstallLane())
    system = how.systems.get(str(seen["os"] or "linux"))
    if system:
        return " ".join(system)
    if lane.note and not lane.pip:
        return None
    pip = lane.pip or how.pip
    if pip:
        words = [*(lane.options or how.options), *(p.replace("{version}", version) for p in pip)]
        return " ".join(["uv pip install", *(quote_shell(w) for w in words)])
    if how.tool:
        return f"uv tool install {quote_shell(how.tool.replace('{version}', version))}"
    if how.shell:
        return how.shell.replace("{version}", version)
    if how.image:
        return f"{PULL} {quote_shell(seen['image']['name'])}" if seen["image"] else None
    return None
