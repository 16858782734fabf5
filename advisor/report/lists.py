"""`advise list`: the catalogues as rows, and as tables."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from advisor.advice.models.facts import RankedModel
from advisor.catalog import Catalog
from advisor.near import simplify_name
from advisor.report.text import align_table
from advisor.units import format_rate, format_tokens

ListRow = dict[str, Any]


def list_entries(what: str, rules: Catalog, match: str | None = None) -> list[ListRow]:
    """Rows of one catalogue, JSON-ready; `match` keeps those whose id, name or aliases contain it."""
    rows = MAKERS[what](rules)
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
    ]  # fmt: skip


def _models(rules: Catalog) -> list[ListRow]:
    return [
        {
            "id": m.id, "family": m.family, "kind": m.kind, "params_total": m.params_total,
            "params_active": m.params_active,
            "max_context": m.max_context, "aliases": list(m.aliases), "stub": m.stub,
        }
        for m in rules.model_index()
    ]  # fmt: skip


def _accelerators(rules: Catalog) -> list[ListRow]:
    return [
        {
            "id": a.id, "name": a.name, "aliases": list(a.aliases), "vendor": a.vendor, "memory_bytes": a.memory_bytes,
            "usable_bytes": a.usable_bytes, "bandwidth_gbs": a.bandwidth_gbs,
            "compute_capability": a.compute_capability,
            "gfx": a.gfx, "tflops": a.tflops, "tdp_watts": a.tdp_watts, "source": a.source, "confidence": a.confidence,
        }
        for a in rules.accelerators().values()
    ]  # fmt: skip


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


def _rules(rules: Catalog) -> list[ListRow]:
    from advisor.advice.guides import guide_names, load_named_guide
    from advisor.decision.conditions import describe_condition
    from advisor.decision.evaluate import walk_nodes

    out = []
    for name in guide_names(rules):
        guide = load_named_guide(name, rules)
        for tree in guide.trees:
            for tree_node in walk_nodes(tree.nodes):
                out.append(
                    {
                        "id": f"{guide.name}/{tree.name}/{tree_node.id}",
                        "name": ", ".join(tree_node.engines) or tree_node.says or "",
                        "condition": describe_condition(tree_node.condition) if tree_node.condition else "otherwise",
                        "because": tree_node.because,
                        "source": list(tree_node.source),
                    }
                )
    return out


def find_rule_entry(rule: str, rules: Catalog) -> ListRow:
    """One rule of a guide in full. Raises UnknownName."""
    from advisor.advice.guides import guide_names, load_named_guide
    from advisor.decision.conditions import describe_condition
    from advisor.decision.evaluate import walk_nodes
    from advisor.errors import UnknownName
    from advisor.near import near_matches

    known: list[str] = []
    for name in guide_names(rules):
        guide = load_named_guide(name, rules)
        for tree in guide.trees:
            for tree_node in walk_nodes(tree.nodes):
                full = f"{guide.name}/{tree.name}/{tree_node.id}"
                known.append(full)
                if rule not in (full, tree_node.id):
                    continue
                return {
                    "id": full,
                    "guide": guide.title,
                    "tree": tree.title or tree.name,
                    "role": tree.role,
                    "condition": describe_condition(tree_node.condition) if tree_node.condition else "otherwise",
                    "engines": list(tree_node.engines),
                    "says": tree_node.says,
                    "overlay": list(tree_node.overlay),
                    "settings": tree_node.settings,
                    "requires": list(tree_node.requires),
                    "quantizations": list(tree_node.quantizations),
                    "avoid": list(tree_node.avoid),
                    "code": tree_node.code,
                    "notes": list(tree_node.notes),
                    "because": tree_node.because,
                    "verdict": tree_node.verdict.to_dict() if tree_node.verdict else None,
                    "sources": [
                        ", ".join(x for x in (s.title, s.version, s.date) if x)
                        for s in (guide.sources[k] for k in tree_node.source)
                    ],
                    "file": f"{guide.where}:{tree_node.line}" if tree_node.line else guide.where,
                }
    raise UnknownName("rule", rule, near_matches(rule, known), "`advise list rules` prints them.")


def describe_rule_entry(row: ListRow) -> str:
    """A rule in full as text."""
    from advisor.report.text import bullets, paint, wrap_text

    out = [
        paint(row["id"], "bold"),
        wrap_text(f"{row['guide']}, {row['tree']}", "  "),
        wrap_text(f"when {row['condition']}", "  "),
    ]
    for key in ("engines", "says", "overlay", "settings", "requires", "quantizations", "avoid", "code"):
        value = row[key]
        if value:
            shown = ", ".join(f"{k}={v}" for k, v in value.items()) if isinstance(value, dict) else value
            out.append(wrap_text(f"{key}: {', '.join(shown) if isinstance(shown, list) else shown}", "  "))
    if row["because"]:
        out.append(wrap_text(f"because {row['because']}", "  "))
    out += bullets(row["notes"])
    if row["verdict"]:
        out.append(wrap_text(f"our verdict: {row['verdict']['word']}. {row['verdict']['text'] or ''}", "  "))
    out += [wrap_text(f"source: {s}", "  ") for s in row["sources"]]
    return "\n".join(out)


MAKERS: dict[str, Callable[[Catalog], list[ListRow]]] = {
    "engines": _engines,
    "models": _models,
    "accelerators": _accelerators,
    "quantizations": _quantizations,
    "guides": _guides,
    "rules": _rules,
}


def tabulate_entries(what: str, rows: list[ListRow]) -> str:
    """Rows as a table that fits a terminal."""
    from tabulate import tabulate

    body = [PRINTERS[what](r) for r in rows]
    return tabulate(body, headers=HEADERS[what], tablefmt="plain", disable_numparse=True)


def _gb(n: int | None) -> str:
    return "" if n is None else f"{n / 2**30:.0f} GB"


def _billions(n: int | None) -> str:
    return "" if n is None else f"{n / 1e9:.3g}B"


HEADERS: dict[str, list[str]] = {
    "engines": ["id", "version", "status", "runs on", "loads"],
    "models": ["id", "params", "active", "context", "short names"],
    "accelerators": ["id", "name", "memory", "GB/s", "capability"],
    "quantizations": ["id", "bits", "format", "covers"],
    "guides": ["name", "trees", "title"],
    "rules": ["rule", "answer", "condition"],
}


def _cut(text: str, n: int) -> str:
    return text if len(text) <= n else text[: n - 1] + "…"


PRINTERS: dict[str, Callable[[ListRow], list[str]]] = {
    "engines": lambda r: [
        r["id"], r["version"] or "", r["status"], _cut(" ".join(r["runs_on"]), 30), _cut(" ".join(r["loads"]), 20),
    ],
    "models": lambda r: [
        _cut(r["id"], 44), _billions(r["params_total"]), _billions(r["params_active"]),
        "" if r["max_context"] is None else format_tokens(r["max_context"]), _cut(" ".join(r["aliases"][:2]), 26),
    ],
    "accelerators": lambda r: [
        r["id"], _cut(r["name"], 34), _gb(r["memory_bytes"]), f"{r['bandwidth_gbs'] or ''}",
        r["compute_capability"] or r["gfx"] or "",
    ],
    "quantizations": lambda r: [r["id"], f"{r['bits']:g}", r["format"], r["covers"]],
    "guides": lambda r: [r["id"], _cut(" ".join(t["name"] for t in r["trees"]), 36), _cut(r["name"], 44)],
    "rules": lambda r: [_cut(r["id"], 52), _cut(r["name"], 28), _cut(r["condition"], 60)],
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
