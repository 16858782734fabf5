"""Write rules/abilities.yaml from published scores, with how well tests are ordered that the fit had not seen.

    python -m tools.ability.calibrate tests/data/model_quality.csv rules/abilities.yaml --force

Each family of tests is left out in turn; the pairs of models that it orders are compared with the fit without it, with
the prior of size and age fitted without it, and with size alone.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Mapping, Sequence
from itertools import combinations
from pathlib import Path
from statistics import correlation
from typing import Any

import yaml
from msgspec.structs import asdict

from advisor.ability.lookup import FIRST_YEAR, release_year, size_terms
from advisor.catalog import Catalog, catalog
from advisor.record import Value
from tools.ability.fit import Features, FittedUse, Score, fit_use, make_scores, read_rows

COMMAND = "python -m tools.ability.calibrate tests/data/model_quality.csv rules/abilities.yaml --force"
SOURCE = "published scores (tests/data/model_quality.csv names each source; rules/boards.yaml: which count for a use)"
USES = ("chat", "code", "agent", "embeddings")
HALLUCINATION = "Vectara hallucination rate (lower is better)"
SAME = 1e-9  # values that differ by less say nothing of an order
KIN = {"code": "agent", "agent": "code"}  # own parts go together (0.50 over 66 models; 0.24 to 0.27 with chat)


class PairAgreement(Value, frozen=True):
    """Shares of pairs that were ordered as the left-out tests order them."""

    pairs: int
    fit: float
    prior: float
    size: float


def list_features(rules: Catalog) -> dict[str, Features]:
    """Size and age of every model of the catalogue whose age is known."""
    out = {}
    for name in rules.model_ids():
        model = rules.find_model(name)
        born = release_year(model.release_date)
        if born is not None:
            out[name] = (*size_terms(model), born - FIRST_YEAR)
    return out


def judge_use(scores: Sequence[Score], features: Mapping[str, Features]) -> PairAgreement:
    """Each family of tests left out in turn: agreement over all pairs of models that a run of it orders."""
    right = {"fit": 0.0, "prior": 0.0, "size": 0.0}
    pairs = 0
    for family in sorted({s.family for s in scores}):
        rest = fit_use([s for s in scores if s.family != family], features)
        runs: dict[tuple[str, bool], list[Score]] = {}
        for score in scores:
            if score.family == family and score.model in features:
                runs.setdefault((score.run, score.thinking), []).append(score)
        for found in runs.values():
            for a, b in combinations(found, 2):
                if abs(a.value - b.value) < SAME:
                    continue
                pairs += 1
                for name in right:
                    gap = _guess(name, a.model, rest, features) - _guess(name, b.model, rest, features)
                    right[name] += 0.5 if abs(gap) < SAME else float((gap > 0) == (a.value > b.value))
    return PairAgreement(pairs, *(right[name] / pairs if pairs else 0.5 for name in ("fit", "prior", "size")))


def _guess(how: str, model: str, fit: FittedUse, features: Mapping[str, Features]) -> float:
    total, active, years = features[model]
    if how == "size":
        return total
    prior = fit.prior[0] + fit.prior[1] * total + fit.prior[2] * active + fit.prior[3] * years
    return fit.abilities.get(model, prior) if how == "fit" else prior


def make_rules(rows: Sequence[dict[str, str]], rules: Catalog) -> dict[str, Any]:
    """The contents of rules/abilities.yaml."""
    features, scores = list_features(rules), make_scores(rows, rules)
    uses: dict[str, Any] = {}
    abilities: dict[str, dict[str, Any]] = {}
    fits: dict[str, FittedUse] = {}
    for use in USES:
        mine = [s for s in scores if s.use == use]
        fit, judged = fit_use(mine, features), judge_use(mine, features)
        fits[use] = fit
        uses[use] = _describe(fit, judged)
        for model in sorted(fit.abilities):
            boards = {s.run for s in mine if s.model == model}
            independent = {s.run for s in mine if s.model == model and s.independent}
            figures = [round(fit.abilities[model], 2), round(fit.spreads[model], 2), len(boards), len(independent)]
            abilities.setdefault(model, {})[use] = figures
    for use, kin in KIN.items():
        for model, (value, part) in find_borrowed(fits[use], fits[kin], features).items():
            abilities[model][use] = [round(value, 2), round(part * uses[use]["prior"]["spread"], 2), 0, 0]
    abilities = {m: {u: found[u] for u in USES if u in found} for m, found in abilities.items()}
    head = {"as_of": max(r["source_date"] for r in rows), "source": SOURCE, "command": COMMAND}
    return {**head, "uses": uses, "abilities": dict(sorted(abilities.items())), "rag": _rag(rows)}


def find_borrowed(fit: FittedUse, kin: FittedUse, features: Mapping[str, Features]) -> dict[str, tuple[float, float]]:
    """Abilities of models that were tested for the kindred use alone: the prior, and a share of their own part there;
    with the part of the spread that is left."""
    own = [{m: x - _guess("prior", m, f, features) for m, x in f.abilities.items()} for f in (kin, fit)]
    pairs = [(own[0][m], own[1][m]) for m in sorted(own[0].keys() & own[1].keys())]
    share, alike = sum(a * b for a, b in pairs) / sum(a * a for a, _ in pairs), correlation(*zip(*pairs, strict=True))
    only = own[0].keys() - own[1].keys()
    return {m: (_guess("prior", m, fit, features) + share * own[0][m], (1 - alike**2) ** 0.5) for m in only}


def _describe(fit: FittedUse, judged: PairAgreement) -> dict[str, Any]:
    unmeasured = (sum(s * s for s in fit.spreads.values()) / len(fit.spreads)) ** 0.5 + 0.3
    prior = dict(zip(("intercept", "log2_total", "log2_active", "year"), (round(x, 3) for x in fit.prior), strict=True))
    return {
        "prior": {**prior, "spread": round(unmeasured, 2)},
        "thinking": round(fit.thinking, 2),
        "models": len(fit.abilities),
        "runs": fit.runs,
        "agreement": {k: round(v, 3) if isinstance(v, float) else v for k, v in asdict(judged).items()},
    }


def _rag(rows: Sequence[dict[str, str]]) -> dict[str, dict[str, float | int]]:
    """Hallucination rate and effective length, as their boards give them."""
    out: dict[str, dict[str, float | int]] = {}
    for row in rows:
        if row["benchmark"] == HALLUCINATION:
            out.setdefault(row["model_id"], {})["hallucination_percent"] = float(row["score"])
        m = re.search(r"effective >?(\d+)K", row["setting"])
        if m and row["benchmark"].startswith("RULER"):
            out.setdefault(row["model_id"], {})["effective_context"] = int(m[1]) * 1024
    return dict(sorted(out.items()))


def write_rules(body: Mapping[str, Any]) -> str:
    """The file's text: one line a model."""
    head = {k: v for k, v in body.items() if k not in ("abilities", "rag")}
    lines = [
        "# Ability by use, fitted to published scores: [ability, spread (one standard deviation), tests, the",
        "# independent among them]. Models of a typical test have a spread of 1. Without thinking; `thinking` adds.",
        "# Written by the command below; do not edit. docs/choosing-models.md says how.",
        yaml.safe_dump(head, sort_keys=False, width=118, allow_unicode=True).rstrip(),
    ]
    for part in ("abilities", "rag"):
        lines.append(f"{part}:")
        lines += [f"  {name}: {_flow(figures)}" for name, figures in body[part].items()]
    return "\n".join(lines) + "\n"


def _flow(figures: Mapping[str, Any]) -> str:
    return "{" + ", ".join(f"{k}: {v}" for k, v in figures.items()) + "}"


def main(arguments: Sequence[str]) -> int:
    """The command."""
    parser = argparse.ArgumentParser(
        prog="python -m tools.ability.calibrate", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("scores", type=Path, help="CSV with the columns of tests/data/model_quality.csv")
    parser.add_argument("rules", type=Path, help="YAML file to write")
    parser.add_argument("--force", action="store_true", help="overwrite RULES where it exists")
    options = parser.parse_args(arguments)
    if options.rules.exists() and not options.force:
        parser.error(f"{options.rules} exists: --force overwrites it")
    body = make_rules(read_rows(options.scores), catalog())
    for use, figures in body["uses"].items():
        a = figures["agreement"]
        sys.stdout.write(
            f"{use}: {figures['models']} models, {figures['runs']} runs; left-out tests ordered alike in "
            f"{a['fit']:.3f} of {a['pairs']} pairs (size and age {a['prior']:.3f}, size {a['size']:.3f})\n"
        )
    options.rules.write_text(write_rules(body), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
