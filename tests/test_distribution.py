"""One place to install this package from: hints, the action, documents and examples give it, and none names an index.

No index has this package, and `advisor` alone is another project there: whoever follows a text with either name
installs a stranger's code.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from advisor.distribution import DISTRIBUTION, INSTALL_FROM, install_command

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

TOP = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((TOP / "pyproject.toml").read_text(encoding="utf-8"))["project"]
IGNORED = (".git", ".venv", "__pycache__", "dist", "build")

INSTALLER = r"\b(?:pip3?|pipx|uvx?|poetry|pdm|conda|mamba|easy_install)\b[^\n;&|#`]*"
# ways to have an index, which anybody may write to, answer for this package
SECOND_INDEX = "a second index"
WRONG = {
    "an installer with the bare name": INSTALLER + r"[\s'\"]advisor(?=['\"`\s.,;)]|$)",
    "an extra of the bare name": r"advisor\[(?<![\w./-]advisor\[)[a-z]",
    "a version of the bare name": r"advisor(?<![\w./-]advisor) ?(?:==|~=|>=|<=|!=) ?['\"]?\d",
    "the bare name's metadata": r"\b(?:version|metadata|distribution|requires|files)\(['\"]advisor['\"]\)",
    "the bare name's page": r"/(?:project|simple|pypi)/advisor\b",
    "the bare name as a project": r"(?m)^name = ['\"]advisor['\"]",
    "the bare name as what is installed": r"(?:default|additional_dependencies): ?\[?['\"]?advisor\b",
    "an installer with our name": (
        INSTALLER
        + r"(?<!--exclude)[\s'\"=]inference[-_.]advisor(?=['\"`\s.,;)\[=<>~!@]|$)(?!-\d)(?![\w.-]*\.(?:whl|tar))"
    ),
    "a version of our name": r"inference(?<![\w./-]inference)[-_.]advisor ?(?:==|~=|>=|<=|!=|<|>) ?['\"]?[\dX]",
    "our name's page": r"/(?:project|simple|pypi)/inference[-_.]advisor\b",
    "our name as what is installed": r"(?:default|additional_dependencies): ?\[?['\"]?inference[-_.]advisor\b",
    SECOND_INDEX: r"--extra-index-url|extra_index_url|PIP_EXTRA_INDEX_URL",
}
SAMPLES = {
    "pip install advisor": "an installer with the bare name",
    "    - pip install --quiet advisor\n": "an installer with the bare name",
    "RUN pip install --no-cache-dir advisor && useradd x": "an installer with the bare name",
    "python -m pip install 'advisor'": "an installer with the bare name",
    "say `pip install advisor`.": "an installer with the bare name",
    "uvx advisor check .": "an installer with the bare name",
    "uvx --from advisor advise check": "an installer with the bare name",
    "pipx install advisor": "an installer with the bare name",
    "pip install 'advisor[online]'": "an extra of the bare name",
    'dev = ["advisor[test,lint]"]': "an extra of the bare name",
    "advisor==0.1.0": "a version of the bare name",
    'requirements = ["advisor>=0.1"]': "a version of the bare name",
    'version("advisor")': "the bare name's metadata",
    "https://pypi.org/project/advisor/": "the bare name's page",
    '[project]\nname = "advisor"\n': "the bare name as a project",
    "    default: advisor\n": "the bare name as what is installed",
    "additional_dependencies: [advisor]": "the bare name as what is installed",
    "      - run: pip install inference-advisor\n": "an installer with our name",
    "RUN pip install --no-cache-dir inference-advisor && useradd x": "an installer with our name",
    "pip install 'inference-advisor[serve]'": "an installer with our name",
    "`pip install inference_advisor==0.1.0`": "an installer with our name",
    "uvx --from inference-advisor advise check": "an installer with our name",
    "uvx --from=inference-advisor advise": "an installer with our name",
    "uv tool install inference-advisor": "an installer with our name",
    "pipx run inference-advisor": "an installer with our name",
    "such as `inference-advisor==0.1.0`": "a version of our name",
    "requirements: inference-advisor>=X.Y": "a version of our name",
    "https://pypi.org/project/inference-advisor/": "our name's page",
    "https://pypi.org/simple/inference-advisor": "our name's page",
    "additional_dependencies: [inference-advisor]": "our name as what is installed",
    "pip install torch --extra-index-url https://example.org": "a second index",
}
RIGHT = (
    install_command(),
    install_command("online"),
    "pip install vendor/inference_advisor-0.1.0-py3-none-any.whl",
    "pip freeze --exclude inference-advisor | sort",
    "image: registry.example.com/inference-advisor:0.1.0",
    "pip install -e '.[test]' && .venv/bin/python -m tools.pages",
    "import advisor; advisor.probe()",
    'config / "advisor" / "rules"',
    "pip install .   # of a checkout of advisor",
    'packages = ["advisor"]',
)


def wrong(text: str) -> set[str]:
    named = "advisor" in text  # as all patterns have it but one
    return {what for what, pattern in WRONG.items() if (named or what == SECOND_INDEX) and re.search(pattern, text)}


def files() -> Iterator[Path]:
    """Every tracked file; where there is no git (a copy of a checkout), every file but those of tools."""
    asked = subprocess.run(["git", "ls-files", "-z"], cwd=TOP, capture_output=True, check=False)
    if asked.returncode == 0 and asked.stdout:
        yield from (TOP / os.fsdecode(name) for name in asked.stdout.split(b"\0") if name)
        return
    for folder, folders, names in os.walk(TOP):
        folders[:] = [f for f in folders if f not in IGNORED and not f.endswith(("_cache", ".hypothesis", ".egg-info"))]
        yield from (Path(folder) / n for n in names)


@pytest.mark.parametrize("sample", SAMPLES)
def test_wrong_names_are_seen(sample: str) -> None:
    assert SAMPLES[sample] in wrong(sample)


@pytest.mark.parametrize("sample", RIGHT)
def test_right_names_are_let_through(sample: str) -> None:
    assert not wrong(sample)


def test_no_file_names_another_distribution() -> None:
    seen, found = 0, []
    for path in files():
        if path == Path(__file__).resolve() or not path.is_file():
            continue
        text = path.read_bytes().decode("utf-8", "replace")
        seen += 1
        found += [f"{path.relative_to(TOP)}: {what}" for what in wrong(text)]
    assert seen > 500
    assert found == []


def test_project_has_the_name_of_the_constant() -> None:
    assert PROJECT["name"] == DISTRIBUTION
    assert "urls" not in PROJECT
    assert PROJECT["scripts"] == {"advise": "advisor.cli.main:main"}


def test_extras_that_are_named_exist() -> None:
    """Those of hints in the code, of texts, and those that other extras take in."""
    extras = PROJECT["optional-dependencies"]
    named: set[str] = set()
    for path in files():
        if path.suffix == ".py" and path.is_relative_to(TOP / "advisor"):
            text = path.read_text(encoding="utf-8")
            named |= set(re.findall(r"\binstall_command\(['\"](\w+)['\"]\)", text))
        elif path.suffix in (".md", ".toml"):
            for inside in re.findall(
                rf"(?:{DISTRIBUTION}|{INSTALL_FROM})\[([\w,]+)\]", path.read_text(encoding="utf-8")
            ):
                named |= set(inside.split(","))
    assert {"online", "plot", "prices", "bench", "test", "lint"} <= named
    assert named <= extras.keys()
    assert extras["dev"] == [f"{DISTRIBUTION}[test,lint]"]


def test_hints() -> None:
    assert install_command() == "pip install /path/to/checkout"
    assert install_command("plot") == "pip install '/path/to/checkout[plot]'"


def test_amd_is_no_dependency() -> None:
    """Ray imports amdsmi wherever it is installed, and does not start where ROCm's library is missing."""
    assert not [d for d in PROJECT["dependencies"] if "amdsmi" in d]
    assert [d for d in PROJECT["optional-dependencies"]["amd"] if d.startswith("amdsmi")]


# ---- the action


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_action_installs_its_own_checkout(tmp_path: Path) -> None:
    """The script of action.yml with a `python` that writes down what it is started with."""
    action = yaml.safe_load((TOP / "action.yml").read_text(encoding="utf-8"))
    assert "version" not in action["inputs"]
    step = next(s for s in action["runs"]["steps"] if s.get("name") == "Install")
    assert "env" not in step
    python = tmp_path / "python"
    python.write_text('#!/bin/sh\nfor word in "$@"; do printf "%s\\n" "$word"; done > calls\n')
    python.chmod(0o755)
    env = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "GITHUB_ACTION_PATH": "/the action"}
    words = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]]
    subprocess.run(words, cwd=tmp_path, env=env, check=True)
    assert (tmp_path / "calls").read_text().splitlines() == ["-m", "pip", "install", "--quiet", "--", "/the action"]
