"""The library interface: callable in any order, same answers as the commands, immutable values."""

from __future__ import annotations

import subprocess
import sys

import msgspec
import pytest

import advisor
from advisor.errors import AdvisorError, UnknownName


def test_functions_stay_functions_in_any_order() -> None:
    """Importing a submodule binds it to the package: no public function may share its name with one."""
    code = (
        "import advisor, itertools, pkgutil, importlib\n"
        "for m in pkgutil.iter_modules(advisor.__path__): importlib.import_module('advisor.' + m.name)\n"
        "for n in advisor.__all__[1:]:\n"
        "    assert callable(getattr(advisor, n)) and not hasattr(getattr(advisor, n), '__path__'), n\n"
        "m = advisor.machine('2x RTX 4090, 64GB RAM')\n"
        "advisor.model('8B'); advisor.machine('cpu'); advisor.recommend(m, model='8B'); advisor.model('8B')\n"
        "for h in ('RTX 4090', 'cpu'): advisor.estimate({'model': '8B', 'hardware': h})\n"
    )
    p = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert p.returncode == 0, p.stderr


def test_every_answer_has_to_dict() -> None:
    m = advisor.machine("1x RTX 4090, 64GB RAM")
    values = [m, advisor.model("8B"), advisor.recommend(m, model="8B"), advisor.explain("8B", "q4"),
              advisor.estimate({"model": "8B", "hardware": "RTX 4090", "context_length": 8192})]  # fmt: skip
    for v in values:
        body = v.to_dict()
        assert isinstance(body, dict)
        msgspec.json.encode(body)
        with pytest.raises(AttributeError):
            v.model = None  # frozen


def test_fields_of_the_workload() -> None:
    a = advisor.recommend("1x RTX 4090, 64GB RAM", model="8B", concurrency=3, context=4096)
    assert a.workload.concurrency == 3
    assert a.chosen is not None
    assert a.chosen.memory is not None
    assert a.chosen.memory.context_length == 4096
    with pytest.raises(AdvisorError):
        advisor.recommend("1x RTX 4090", model="8B", concurency=3)
    with pytest.raises(AdvisorError):
        advisor.recommend("1x RTX 4090", model="8B", stage="prod")


def test_unknown_names() -> None:
    with pytest.raises(UnknownName) as e:
        advisor.model("llama3.1:9b")
    assert "llama3.1:8b" in e.value.near
    with pytest.raises(AttributeError):
        _ = advisor.nothing


def test_probe_is_this_machine() -> None:
    m = advisor.probe()
    assert m.source == "probe"
    assert m.memory.total_bytes
