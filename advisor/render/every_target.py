"""All launch files of a deployment at once."""

from __future__ import annotations

from advisor.catalog import Catalog
from advisor.deployment import Deployment, Workload
from advisor.errors import BadInput
from advisor.render.files import File, readme, render, targets


def render_every(
    d: Deployment, rules: Catalog, workload: Workload | None = None, reasons: bool = False
) -> tuple[File, ...]:
    """Every file that this engine and machine allow, and a README that says what to run and what is absent.

    Raises BadInput where there is none.
    """
    files: list[tuple[str, File]] = []
    absent: list[tuple[str, str]] = []
    for target in targets(d.engine, rules):
        try:
            files += [(target, f) for f in render(d, target, rules, workload, reasons)]
        except BadInput as e:
            absent.append((target, e.message))
    if not files:
        raise BadInput(f"{d.engine}: nothing can be rendered for this machine")
    return (*(f for _, f in files), readme(d, rules, [(t, f.name) for t, f in files], absent, workload))
