"""checkov finds nothing in rendered files but what docs/launch-files.md gives a reason for."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path

import pytest
from launching import RULES, launch

from advisor.errors import BadInput
from advisor.render.files import list_targets, render_files
from advisor.session import Session

PAGE = Path(__file__).parent.parent.parent / "docs" / "launch-files.md"
CHECKOV = os.environ.get("ADVISOR_CHECKOV")

pytestmark = pytest.mark.slow


@pytest.mark.skipif(not CHECKOV, reason="make long: ADVISOR_CHECKOV names no checkov (.ci/run brings one)")
def test_checkov_finds_only_what_has_a_reason(tmp_path: Path) -> None:
    n = 0
    for entry in RULES.engines().values():
        for target in ("kubernetes", "lws", "kserve", "ray", "dynamo", "compose"):
            for i, hardware in enumerate(("RTX 4090", "8x H100 80GB SXM, 2 nodes", "cpu, 64GB RAM")):
                if entry.kind == "client" or target not in list_targets(entry.id, RULES):
                    continue
                try:
                    (file,) = render_files(launch(entry.id, hardware=hardware, host="0.0.0.0"), target, Session(RULES))
                except BadInput:
                    continue
                (tmp_path / f"{entry.id}-{target}-{i}.yaml").write_text(file.content, encoding="utf-8")
                n += 1
    assert n > 30
    done = subprocess.run(
        [str(CHECKOV), "-d", str(tmp_path), "--framework", "kubernetes", "--compact", "--quiet", "-o", "json"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    found = json.loads(done.stdout)
    failed = {c["check_id"] for c in found["results"]["failed_checks"]}
    reasons = set(re.findall(r"(?m)^\| (CKV\w+) \|", PAGE.read_text(encoding="utf-8")))
    assert failed == reasons, "a finding without a reason, or a reason without its finding"
