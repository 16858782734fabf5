"""What there is as text: catalogues as rows and tables, ages of facts, guides as trees, this machine."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from advisor.decoding import Json
from advisor.near import simplify_name
from advisor.record import Value, pick_fields
from advisor.report.text import align_table, bullets, cut_text, list_section, paint, wrap_text
from advisor.units import format_gib, format_rate, format_tokens

if TYPE_CHECKING:  # a probe needs none of it
    from advisor.advice.models.facts import RankedModel
    from advisor.advice.types import GuideAnswer
    from advisor.catalog import Catalog
    from advisor.decision.types import Guide, Tree, TreeNode
    from advisor.freshness import FactAges, FamilyAge
    from advisor.machines.types import Device, Machine

ListRow = Json


def list_entries(what: str, rules: Catalog, match: str | None = None) -> list[ListRow]:
    """Rows of one catalogue, JSON-ready; `match` keeps those whose id, name or aliases contain it."""
    rows = CATALOGUES[what].list_rows(rules)
    if not match:
        return rows
    wanted = simplify_name(match)
    return [
        r
        for r in rows
        if any(wanted in simplify_name(str(t)) for t in (r["id"], r.get("name") or "", *r.get("aliases", ())))
    ]


def _engines(rules: Catalog) -> list[ListRow]:
    return [
        {
            "id": e.id, "name": e.name, "aliases": list(e.aliases), "kind": e.kind, "version": e.version,
            "status": e.health.status, "runs_on": [k for k, s in e.hardware.items() if s.support == "yes"],
            "partly_on": [k for k, s in e.hardware.items() if s.support == "partial"],
            "loads": [k for k, s in e.formats.items() if s.support == "yes"], "license": e.license, "port": e.port,
        }
        for e in rules.engines().values()
    ] + [
        {
            "id": k.names[0], "name": k.names[0], "aliases": [], "kind": k.kind, "version": None,
            "status": f"no entry; runs {', '.join(k.runs)}" if k.runs else "no entry", "runs_on": [], "partly_on": [],
            "loads": [], "license": None, "port": None,
        }
        for k in rules.known_engines.values()
    ]  # fmt: skip


def _models(rules: Catalog) -> list[ListRow]:
    fields = ("id", "family", "kind", "params_total", "params_active", "max_context", "aliases", "stub")
    return [pick_fields(m, *fields) for m in rules.model_index()]


def _accelerators(rules: Catalog) -> list[ListRow]:
    fields = (
        "id", "name", "aliases", "vendor", "memory_bytes", "usable_bytes", "bandwidth_gbs", "compute_capability", "gfx",
        "tflops", "tdp_watts", "source", "confidence",
    )  # fmt: skip
    return [pick_fields(a, *fields) for a in rules.accelerators().values()]


def _quantizations(rules: Catalog) -> list[ListRow]:
    return [
        {
            "id": q.id, "aliases": list(q.aliases), "family": q.family, "format": q.format, "bits": q.bits_nominal,
            "covers": q.covers, "source": q.source,
        }
        for q in rules.quantizations().values()
    ]  # fmt: skip


def _guides(rules: Catalog) -> list[ListRow]:
    from advisor.advice.guides import guide_names, load_named_guide

    out = []
    for name in guide_names(rules):
        guide = load_named_guide(name, rules)
        trees = [
            {
                "name": t.name, "title": t.title, "role": t.role, "order": t.order,
                "questions": {
                    q: {"type": f.type, "values": list(f.values), "asks": f.doc} for q, f in t.questions.items()
                },
            }
            for t in guide.trees
        ]  # fmt: skip
        out.append({"id": guide.name, "name": guide.title, "kind": guide.kind, "as_of": guide.as_of, "trees": trees})
    return out


def _walk_rules(rules: Catalog) -> Iterator[tuple[str, Guide, Tree, TreeNode]]:
    """Every rule of every guide, with its full name."""
    from advisor.advice.guides import guide_names, load_named_guide
    from advisor.decision.evaluate import walk_nodes

    for name in guide_names(rules):
        guide = load_named_guide(name, rules)
        for tree in guide.trees:
            for node in walk_nodes(tree.nodes):
                yield f"{guide.name}/{tree.name}/{node.id}", guide, tree, node


def _describe_condition(node: TreeNode) -> str | None:
    from advisor.decision.conditions import describe_condition

    return describe_condition(node.condition) if node.condition else "otherwise"


def _rules(rules: Catalog) -> list[ListRow]:
    return [
        {
            "id": full, "name": ", ".join(node.engines) or node.says or "", "condition": _describe_condition(node),
            "because": node.because, "source": list(node.source),
        }
        for full, _, _, node in _walk_rules(rules)
    ]  # fmt: skip


PARTS = ("engines", "says", "overlay", "settings", "requires", "quantizations", "avoid", "code")  # of what a rule says


def find_rule_entry(rule: str, rules: Catalog) -> ListRow:
    """One rule of a guide in full. Raises UnknownName."""
    known: list[str] = []
    for full, guide, tree, node in _walk_rules(rules):
        known.append(full)
        if rule in (full, node.id):
            return {
                "id": full,
                "guide": guide.title,
                "tree": tree.title or tree.name,
                "role": tree.role,
                "condition": _describe_condition(node),
                **pick_fields(node, *PARTS, "notes", "because"),
                "verdict": node.verdict.to_dict() if node.verdict else None,
                "sources": [
                    ", ".join(x for x in (s.title, s.version, s.date) if x)
                    for s in (guide.sources[k] for k in node.source)
                ],
                "file": f"{guide.where}:{node.line}" if node.line else guide.where,
            }
    from advisor.errors import UnknownName
    from advisor.near import near_matches

    raise UnknownName("rule", rule, near_matches(rule, known), "`advise list rules` prints them.")


def describe_rule_entry(row: ListRow) -> str:
    """A rule in full as text."""
    out = [
        paint(row["id"], "bold"),
        wrap_text(f"{row['guide']}, {row['tree']}", "  "),
        wrap_text(f"when {row['condition']}", "  "),
    ]
    for key in PARTS:
        value = row[key]
        if value:
            shown = ", ".join(f"{k}={v}" for k, v in value.items()) if isinstance(value, dict) else value
            out.append(wrap_text(f"{key}: {', '.join(shown) if isinstance(shown, (list, tuple)) else shown}", "  "))
    if row["because"]:
        out.append(wrap_text(f"because {row['because']}", "  "))
    out += bullets(row["notes"])
    if row["verdict"]:
        out.append(wrap_text(f"our verdict: {row['verdict']['word']}. {row['verdict']['text'] or ''}", "  "))
    out += [wrap_text(f"source: {s}", "  ") for s in row["sources"]]
    return "\n".join(out)


def tabulate_entries(what: str, rows: list[ListRow]) -> str:
    """Rows as a table that fits a terminal."""
    from tabulate import tabulate

    shown = CATALOGUES[what]
    body = [shown.print_row(r) for r in rows]
    return tabulate(body, headers=shown.headers, tablefmt="plain", disable_numparse=True)


def _gb(n: int | None) -> str:
    return "" if n is None else f"{n / 2**30:.0f} GB"


def _billions(n: int | None) -> str:
    return "" if n is None else f"{n / 1e9:.3g}B"


class Catalogue(Value, frozen=True):
    """What is listed: its rows, and how a table shows them."""

    list_rows: Callable[[Catalog], list[ListRow]]
    headers: tuple[str, ...]
    print_row: Callable[[ListRow], list[str]]


CATALOGUES = {
    "engines": Catalogue(_engines, ("id", "version", "status", "runs on", "loads"), lambda r: [
        r["id"], r["version"] or "", r["status"], cut_text(" ".join(r["runs_on"]), 30),
        cut_text(" ".join(r["loads"]), 20),
    ]),
    "models": Catalogue(_models, ("id", "params", "active", "context", "short names"), lambda r: [
        cut_text(r["id"], 44), _billions(r["params_total"]), _billions(r["params_active"]),
        "" if r["max_context"] is None else format_tokens(r["max_context"]), cut_text(" ".join(r["aliases"][:2]), 26),
    ]),
    "accelerators": Catalogue(_accelerators, ("id", "name", "memory", "GB/s", "capability"), lambda r: [
        r["id"], cut_text(r["name"], 34), _gb(r["memory_bytes"]), f"{r['bandwidth_gbs'] or ''}",
        r["compute_capability"] or r["gfx"] or "",
    ]),
    "quantizations": Catalogue(_quantizations, ("id", "bits", "format", "covers"), lambda r: [
        r["id"], f"{r['bits']:g}", r["format"], r["covers"],
    ]),
    "guides": Catalogue(_guides, ("name", "trees", "title"), lambda r: [
        r["id"], cut_text(" ".join(t["name"] for t in r["trees"]), 36), cut_text(r["name"], 44),
    ]),
    "rules": Catalogue(_rules, ("rule", "answer", "condition"), lambda r: [
        cut_text(r["id"], 52), cut_text(r["name"], 28), cut_text(r["condition"], 60),
    ]),
}  # fmt: skip


def tabulate_ranked_models(rows: Sequence[RankedModel], use: str) -> str:
    """Models in the order of their ability as a table."""
    on = any(r.runs for r in rows)
    body = []
    for r in rows:
        line = [r.model.rpartition("/")[2][:28], f"{r.ability:+.1f} ± {r.spread:.1f}", f"{r.independent}/{r.boards}"]
        if r.runs is not None:
            line += [r.runs.quantization[:10], format_rate(r.runs.decode_tps)]
        else:
            line += [f"{r.params_total / 1e9:.3g}B"]
        body.append([*line, (r.licence or "unknown")[:11]])
    heads = ("model", use, "tests", *(("format", "tokens/s") if on else ("size",)), "licence")
    return align_table(body, heads, "lrrlrl" if on else "lrrrl")


def describe_ages(ages: FactAges) -> str:
    """A table of families, what each rests on, and engines with a newer release."""
    out = [paint(f"Facts on {ages.day}", "bold")]
    if not ages.families:
        return "\n".join([*out, "  none is older than its shelf life"])
    ordered = sorted(ages.families, key=lambda f: -(f.age_days or 0) / f.shelf_days)
    rows = [
        [f.label, str(f.facts), f.as_of or "unknown", _days(f.age_days), _days(f.shelf_days), _state(f)]
        for f in ordered
    ]
    out += ["", align_table(rows, ("", "facts", "of", "age", "shelf life", ""), "lrlrrl")]
    out += list_section("From, and how refreshed", map(_origin, ordered))
    newer = (f"{b.engine}: facts of {b.facts_of}, {b.package} {b.newest} ({b.seen})" for b in ages.behind)
    out += list_section("Newer releases than the facts are of", newer)
    return "\n".join(out)


def _origin(family: FamilyAge) -> str:
    said = f"{family.label}: {family.source}; {family.refresh}"
    return f"{said}; oldest: {family.oldest}" if family.oldest else said


def _days(n: int | None) -> str:
    return "?" if n is None else f"{n} d"


def _state(family: FamilyAge) -> str:
    return {True: "old", False: "", None: "no date"}[family.stale]


def describe_machine(machine: Machine) -> str:
    """The machine, one fact a line; unknown is stated."""
    out = []

    def line(name: str, value: object) -> None:
        out.append(wrap_text("unknown" if value is None or value == "" else str(value), f"{name + ':':15}", " " * 15))

    system = " ".join(str(x) for x in (machine.os, machine.os_version, machine.arch) if x)
    line(
        "system",
        system + (" (WSL)" if machine.wsl else "") + (f", in {machine.container}" if machine.container else ""),
    )
    cores = f"{machine.cpu.physical_cores or 'unknown'} cores, {machine.cpu.logical_cores or 'unknown'} threads"
    usable = f", {machine.cpu.usable_cores:g} usable" if machine.cpu.usable_cores is not None else ""
    line("CPU", f"{machine.cpu.model or 'unknown'}; {cores}{usable}")
    line("CPU flags", " ".join(machine.cpu.flags) if machine.cpu.flags is not None else None)
    ram = format_gib(machine.memory.total_bytes, 1)
    if machine.memory.available_bytes is not None:
        ram += f", {format_gib(machine.memory.available_bytes, 1)} available"
    if machine.memory.limit_bytes is not None:
        ram += f", limited to {format_gib(machine.memory.limit_bytes, 1)}"
    line("RAM", ram)
    for device in machine.devices:
        line(f"GPU {device.index}", _device(device))
    if not machine.devices:
        line("GPU", "none found")
    if machine.interconnect:
        line("interconnect", machine.interconnect)
    if machine.drivers:
        line("drivers", ", ".join(f"{k} {v}" for k, v in machine.drivers.items()))
    if machine.npu:
        line("NPU", machine.npu)
    engines = [f"{e.engine} {e.version or e.build or '(version unknown)'}" for e in machine.engines]
    line("engines", ", ".join(engines) or "none found")
    line("docker", {True: "yes", False: "no", None: None}[machine.docker])
    notes = [*machine.notes, *(f"GPU {d.index}: {n}" for d in machine.devices for n in d.notes)]
    out += list_section("Notes", notes)
    return "\n".join(out)


def _device(device: Device) -> str:
    parts = [device.name]
    memory = format_gib(device.total_bytes, 1)
    if device.total_basis and device.total_basis != "reported":
        memory += f" ({device.total_basis})"
    if device.free_bytes is not None:
        memory += f", {format_gib(device.free_bytes, 1)} free"
    parts.append(memory + (" of host memory" if device.unified else ""))
    if device.compute_capability:
        parts.append(f"compute capability {device.compute_capability}")
    if device.gfx:
        parts.append(device.gfx + (f" (overridden as {device.gfx_override})" if device.gfx_override else ""))
    if device.mig_profile:
        parts.append(f"MIG {device.mig_profile}")
    if device.power_limit_watts is not None:
        parts.append(f"{device.power_limit_watts:.0f} W")
    if device.driver_missing:
        parts.append("driver missing")
    if not device.visible:
        parts.append("hidden by the environment")
    if device.accelerator is None:
        parts.append("not in the catalogue")
    return "; ".join(parts)


_MARKS = {True: "[x]", False: "[ ]", None: "[?]"}


def draw_tree(guide: Guide, tree: Tree, held: Mapping[str, bool | None]) -> str:
    """A tree with the path that was taken marked: [x] holds, [ ] does not, [?] is unknown, no mark: not looked at."""
    out = [paint(f"{guide.title}: {tree.title or tree.name}", "bold")]
    if tree.remark:
        out.append(wrap_text(tree.remark, "  "))
    order = "the first that holds counts" if tree.order == "first_match" else "all that hold count; no order is given"
    out.append(wrap_text(f"({order})", "  "))
    out += _nodes(tree.nodes, held, 1)
    if tree.gaps:
        out.append(wrap_text(f"no answer otherwise: {tree.gaps}", "  "))
    return "\n".join(out)


def _nodes(nodes: Sequence[TreeNode], held: Mapping[str, bool | None], depth: int) -> list[str]:
    out = []
    for node in nodes:
        mark = _MARKS[held[node.id]] if node.id in held else "   "
        indent = "  " * depth
        leaf = ", ".join(node.engines) or node.says or ", ".join((*node.hardware, *node.overlay, *node.quantizations))
        text = f"{mark} {node.id}: {_describe_condition(node)}"
        out.append(wrap_text(text + (f" → {leaf}" if leaf and not node.nodes else ""), indent, indent + "      "))
        if node.verdict:
            out.append(wrap_text(f"our verdict: {node.verdict.word}. {node.verdict.text or ''}", indent + "      "))
        out += _nodes(node.nodes, held, depth + 1)
    return out


def describe_guide_answer(guide: GuideAnswer) -> str:
    """What the source's own tree says, and our verdict next to it."""
    out = [paint(f"The guide {guide.name} ({guide.tree}) says:", "bold")]
    if guide.engines:
        order = "" if guide.ranked else " (the source gives no precedence)"
        out.append(wrap_text(f"{', '.join(guide.engines)}{order}", "  "))
    out += bullets(guide.says)
    for words, label in (
        (guide.later, "later"),
        (guide.overlay, "next to it"),
        (guide.hardware, "hardware"),
        (guide.quantizations, "formats"),
        ([f"{k}={v}" for k, v in guide.settings.items()], "settings"),
    ):
        if words:
            out.append(wrap_text(f"{label}: {', '.join(words)}", "  ", "    "))
    for v in guide.verdict:
        text = f": {v.text}" if v.text else ""
        out.append(wrap_text(f"our verdict on {', '.join(v.claims)}: {v.word}{text}", "  ", "    "))
    for engine, reasons in guide.refused_here.items():
        out.append(wrap_text(f"on this machine {engine} is refused: {'; '.join(reasons)}", "  ", "    "))
    out += bullets(guide.notes)
    if guide.unanswered:
        out.append(wrap_text(f"not answered: {', '.join(guide.unanswered)} (--answer KEY=VALUE)", "  ", "    "))
    return "\n".join(out)
