"""Rendering one target of one deployment into files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from advisor.catalog import Catalog
from advisor.deployment import Deployment
from advisor.errors import BadInput
from advisor.record import Record
from advisor.render.context import context
from advisor.render.environment import environment, template_roots

if TYPE_CHECKING:
    from jinja2 import Environment

# target -> name of the file it writes; a template `<engine>/<target>.j2` makes it available
FILES = {"command": "run.sh", "docker": "docker-run.sh", "compose": "compose.yaml"}
IN_CONTAINERS = ("docker", "compose")


class File(Record, frozen=True, kw_only=True):
    """One file of a launch: name inside the output folder, content, and whether it is a program."""

    name: str
    content: str
    executable: bool = False


def targets(engine_id: str) -> list[str]:
    """Targets that have a template for this engine, in a fixed order."""
    roots = template_roots()
    return [t for t in FILES if any((r / engine_id / f"{t}.j2").is_file() for r in roots)]


def command(d: Deployment, rules: Catalog) -> str:
    """The shell command that starts the deployment, ready to paste. Raises BadInput where there is no template."""
    return _render(d, "command", rules, script=False).strip()


def render(d: Deployment, target: str, rules: Catalog) -> tuple[File, ...]:
    """The files of one target. Raises BadInput for a target this engine does not have."""
    if target not in FILES:
        from advisor.near import near_matches

        raise BadInput(f"unknown target {target!r}; there are {', '.join(FILES)}.", near_matches(target, FILES))
    name = FILES[target]
    return (File(name=name, content=_render(d, target, rules, script=True), executable=name.endswith(".sh")),)


def _render(d: Deployment, target: str, rules: Catalog, script: bool) -> str:
    entry = rules.engine(d.engine)
    if target not in targets(entry.id):
        have = ", ".join(targets(entry.id)) or "no target yet"
        raise BadInput(f"{entry.name} has no {target} template; it has {have}")
    env = environment(tuple(template_roots()))
    seen = context(d, entry, rules)
    if target in IN_CONTAINERS and seen["image"] is None:
        raise BadInput(f"{entry.name}: no container image is known for {seen['vendor']} devices; take --target command")
    return _filled(env, f"{entry.id}/{target}.j2", {**seen, "script": script})


def _filled(env: Environment, name: str, values: dict[str, Any]) -> str:
    """The template with its values. Raises BadInput for a template that is wrong (a user's own may be)."""
    from jinja2 import TemplateError, TemplateSyntaxError

    try:
        text: str = env.get_template(name).render(**values)
    except TemplateSyntaxError as e:
        raise BadInput(f"template {name}, line {e.lineno}: {e.message}") from None
    except (TemplateError, TypeError, ValueError, ArithmeticError, LookupError, RecursionError) as e:
        raise BadInput(f"template {name}: {e or type(e).__name__}") from None
    return text


def write(files: tuple[File, ...], folder: Path, force: bool = False) -> list[Path]:
    """Write the files into `folder` (made if absent).

    Raises BadInput before anything is written if one is there already (unless `force`) or a value is not plain text.
    """
    import os

    paths = [folder / f.name for f in files]
    there = [p.name for p in paths if os.path.lexists(p)]
    if there and not force:
        raise BadInput(f"{folder}: {', '.join(there)} is there already; --force overwrites it")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for path, f in zip(paths, files, strict=True):
            if path.is_symlink():
                path.unlink()  # the link is replaced, what it points to is not touched
            path.write_text(f.content, encoding="utf-8")
            if f.executable:
                path.chmod(0o755)
    except (OSError, ValueError) as e:
        raise BadInput(f"{folder}: cannot be written: {getattr(e, 'strerror', None) or e}") from None
    return paths
