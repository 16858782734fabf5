"""The lines around a command: one that installs the engine, one that asks its server a question."""

from __future__ import annotations

from typing import Any

from advisor.catalog import Catalog
from advisor.catalog.launch_types import Installation, InstallLane
from advisor.deployment import Deployment
from advisor.record import Record
from advisor.render.context import make_template_context
from advisor.render.environment import quote_shell


class QuickStart(Record, frozen=True, kw_only=True):
    """`install` is None where no single line installs the engine on this system."""

    install: str | None
    test: str


def make_quick_start(deployment: Deployment, rules: Catalog) -> QuickStart:
    """The two lines for a deployment. Raises BadInput for values no command can hold."""
    entry = rules.engine(deployment.engine)
    seen = make_template_context(deployment, entry, rules, brief=True)
    version = str(seen["engine"]["version"] or "")
    install = _install(entry.installation, version, seen) if entry.installation else None
    key = ' -H "Authorization: Bearer $API_KEY"' if seen["outside"] and seen["key"] else ""
    return QuickStart(install=install, test=f"curl{key} {quote_shell(seen['url'] + '/models')}")


def _install(how: Installation, version: str, seen: dict[str, Any]) -> str | None:
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
        return f"docker pull {quote_shell(seen['image']['name'])}" if seen["image"] else None
    return None
