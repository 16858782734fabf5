"""Values of this package do not change, and what code makes names its fields."""

from __future__ import annotations

from records import list_changeable, list_positional, list_records, list_set

from advisor.memory.ggml.graph import ON_DEVICE
from advisor.memory.paged_cache import CURRENT

READ: set[str] = set()


def test_values_do_not_change() -> None:
    assert list_changeable("advisor.memory") == set()


def test_fields_are_named_where_code_makes_a_value() -> None:
    assert list_positional("advisor.memory") == READ
    assert not list_records("advisor.memory") & READ


def test_what_is_left_out_is_nothing_or_the_usual() -> None:
    usual = {  # one rank with the whole model, its tower, and a cache of 16 bit, on a GPU
        "tp": [1], "pp": [1], "ep": [1], "vision": [True], "experts": ["none"], "gpu": [True],
        "key_type": ["F16"], "value_type": ["F16"], "output": [ON_DEVICE], "injects": [True],
        "per_tokens": [1], "hidden": [1], "intermediate": [1], "weighted": [True],
        "keeps_cache": [True], "width": [1.0], "times": [1.0],
        "alignment": [1, 128], "pad_rows": [True],  # of a state's blocks, and of a CUDA buffer
        "block": [16], "largest": [512],  # tokens, as vLLM has them
        "layout": [CURRENT], "padded_below": [1.5], "batches": [2],  # of unlike layers, as vLLM 0.33.0 has them
    }  # fmt: skip
    found = list_set("advisor.memory")
    assert found == usual
