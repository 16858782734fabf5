"""Paths of other systems, without being on one: what takes one apart, what writes files, which names are found."""

from __future__ import annotations

import ast
import re
from pathlib import Path, PurePosixPath, PureWindowsPath

import pytest

from advisor.checks.resolve.launch_reader import is_path
from advisor.checks.run import FILES
from advisor.render.words import ModelRef, local_name, make_local_reference

PACKAGE = Path(__file__).resolve().parent.parent / "advisor"
NAMES = ("Qwen3-8B-Q4_K_M.gguf", "a model.gguf", "Llama-3.1-8B-Instruct")
FOLDERS = (PureWindowsPath(r"C:\Users\me\models"), PureWindowsPath(r"\\server\share"), PurePosixPath("/srv/models"))


@pytest.mark.parametrize("folder", FOLDERS, ids=str)
@pytest.mark.parametrize("name", NAMES)
def test_the_name_of_a_model_is_the_last_part_of_its_path(folder: PureWindowsPath | PurePosixPath, name: str) -> None:
    path = folder / name
    stem = path.name.removesuffix(".gguf").replace(" ", "-")
    assert local_name(str(path)) == stem
    assert local_name(f"{folder}{'/' if isinstance(folder, PurePosixPath) else chr(92)}{name}") == stem


@pytest.mark.parametrize("path", [r"C:\models\x.gguf", r"d:\x", "/models/x", "./x", "../x", "~/x", "s3://bucket/x"])
def test_places_are_no_names_of_models(path: str) -> None:
    assert is_path(path)


@pytest.mark.parametrize("name", ["Qwen/Qwen3-8B", "qwen3:8b", "C3-model/x"])
def test_names_of_models_are_no_places(name: str) -> None:
    assert not is_path(name)


def test_a_path_is_never_read_as_an_option() -> None:
    made = make_local_reference(ModelRef(id="x", quantization="BF16"), "-model.gguf")
    assert made.path == "./-model.gguf"


@pytest.mark.parametrize(
    ("path", "found"),
    [
        (PureWindowsPath(r"deploy\compose.yaml"), True),
        (PureWindowsPath(r"C:\x\llm.service.d\override.conf"), True),
        (PureWindowsPath(r"C:\x\Modelfile"), True),
        (PureWindowsPath(r"C:\x\notes.txt"), False),
        (PurePosixPath("deploy/Dockerfile.vllm"), True),
    ],
)
def test_deployment_files_are_found_by_their_posix_form(path: PureWindowsPath | PurePosixPath, found: bool) -> None:
    assert bool(FILES.search(path.as_posix())) is found


def test_what_others_read_is_written_with_the_line_ends_of_unix() -> None:
    """Text that Python writes has the system's line ends unless it is given; a shell does not read those of Windows."""
    for file in ("advisor/render/files.py", "advisor/files.py", "tools/pages/__main__.py"):
        calls = [
            node
            for node in ast.walk(ast.parse((PACKAGE.parent / file).read_text(encoding="utf-8")))
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "write_text"
        ]
        assert calls, file
        for call in calls:
            given = {k.arg: ast.literal_eval(k.value) for k in call.keywords}
            assert given == {"encoding": "utf-8", "newline": "\n"}, f"{file}:{call.lineno}"


def test_no_text_is_read_or_written_in_the_systems_own_encoding() -> None:
    """Windows has others than UTF-8."""
    wrong = []
    for path in PACKAGE.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        for node in ast.walk(ast.parse(text)) if re.search("read_text|write_text", text) else ():
            if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
                continue
            own = (
                isinstance(node.func.value, ast.Name) and node.func.value.id == "ctx"
            )  # a reader of launches, not a file
            if own or node.func.attr not in ("read_text", "write_text"):
                continue
            if "encoding" not in {k.arg for k in node.keywords}:
                wrong.append(f"{path.relative_to(PACKAGE)}:{node.lineno}")
    assert wrong == []
