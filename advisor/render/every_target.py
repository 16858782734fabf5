"""All launch files of a deployment at once."""

from __future__ import annotations

from advisor.catalog import Catalog
from advisor.deployment import Deployment, Workload
from advisor.errors import BadInput
from advisor.render.files import LaunchFile, list_targets, make_readme, render_files


def render_every(
    deployment: Deployment, rules: Catalog, workload: Workload | None = None, reasons: bool = False
) -> tuple[LaunchFile, ...]:
    """Every file that this engine and machine allow, and a README that says what to run and what is absent.

    Raises BadInput where there is none.
    """
    files: list[tuple[str, LaunchFile]] = []
    absent: list[tuple[str, str]] = []
    for target in list_targets(deployment.engine, rules):
        try:
            files += [(target, f) for f in render_files(deployment, target, rules, workload, reasons)]
        except BadInput as e:
            absent.append((target, e.message))
    if not files:
        raise BadInput(f"{deployment.engine}: nothing can be rendered for this machine")
    return (*(f for _, f in files), make_readme(deployment, rules, [(t, f.name) for t, f in files], absent, workload))
