"""Parameters of transformers' own classes, counted on torch's meta device, against our reading of their configs.

    python tests/planner/transformers_counts.py count OUT.jsonl     (where transformers and torch are installed)
    python tests/planner/transformers_counts.py compare OUT.jsonl [--unknown]      (where advisor is)

The first makes every causal language model with the default values of its configuration class; the second says how
near ours comes, with --unknown as if its type stood in no table (`unlisted_within` of rules/hf.yaml). A developers'
tool, not a test: rows for tests are in tests/data/transformers_counts.jsonl.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

NEAR = (3e-6, 1e-3, 0.01, 0.1)
TOWERS = ("vision", "visual", "audio", "projector", "image", "connector", "merger", "speech")


def count() -> Iterator[dict[str, Any]]:
    """A row for each class: type, config, parameters of the text part; `error` where it cannot be made."""
    import torch
    import transformers
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

    for kind, names in sorted(MODEL_FOR_CAUSAL_LM_MAPPING_NAMES.items()):
        name = names if isinstance(names, str) else names[0]
        try:
            config = CONFIG_MAPPING[kind]()
            made = json.loads(config.to_json_string(use_diff=False)) | {"architectures": [name]}
            with torch.device("meta"):
                network = getattr(transformers, name)(config)
        except Exception as e:  # whatever a class says of its own default values
            yield {"type": kind, "error": f"{type(e).__name__}: {str(e)[:200]}"}
            continue
        sizes = (p.numel() for n, p in network.named_parameters() if not any(x in n for x in TOWERS))
        yield {"type": kind, "parameters": sum(sizes), "config": made}


def compare(rows: list[dict[str, Any]], unknown: bool) -> Iterator[str]:
    """What ours gives, row by row, and how many are how near."""
    from advisor.catalog import catalog
    from advisor.errors import AdvisorError
    from advisor.models.hf_config import model_from_config

    found: Counter[str] = Counter()
    for row in rows:
        if "error" in row:
            continue
        config = row["config"]
        if unknown:
            sections = {k: v | {"model_type": "new"} for k, v in config.items() if k.endswith("_config") and v}
            config = config | sections | {"model_type": "new"}
        try:
            counted = model_from_config(config, row["type"], catalog().config_classes).params_text or 0
        except AdvisorError as e:
            found["refused"] += 1
            yield f"{row['type']:28} refused: {e.message[:120]}"
            continue
        error = counted / row["parameters"] - 1
        found[next((f"within {x:g}" for x in NEAR if abs(error) <= x), "further")] += 1
        yield f"{row['type']:28} {100 * error:+.4f} %"
    yield str(dict(found))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("work", choices=("count", "compare"))
    parser.add_argument("file", type=Path)
    parser.add_argument("--unknown", action="store_true")
    words = parser.parse_args()
    if words.work == "count":
        words.file.write_text("".join(json.dumps(row, default=str) + "\n" for row in count()), encoding="utf-8")
    else:
        rows = [json.loads(line) for line in words.file.read_text(encoding="utf-8").splitlines()]
        print(*compare(rows, words.unknown), sep="\n")


if __name__ == "__main__":
    main()
