"""The list of modules in docs/architecture.md: what each is for, as its docstring's first sentence says.

python -m tools.pages.modules [TOP]        writes the list into TOP/docs/architecture.md
"""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path

MARK = re.compile(
    r"(?s)(?<=<!-- modules: written by `python -m tools.pages.modules` -->\n).*?(?=<!-- end of modules -->)"
)


def make_module_list(top: Path) -> str:
    """A heading for each package, a line for each module of `advisor`. Raises ValueError for one without docstring."""
    out = []
    for folder in sorted({p.parent for p in (top / "advisor").rglob("*.py")}):
        lines = [f"- `{p.name}`: {_purpose(p)}" for p in sorted(folder.glob("*.py")) if p.name != "__init__.py"]
        whole = folder / "__init__.py"
        head = _purpose(whole) if whole.exists() and whole.read_text(encoding="utf-8").strip() else ""
        out.append("\n".join((f"\n**`{folder.relative_to(top).as_posix()}/`** {head}\n", *lines)).rstrip() + "\n")
    return "".join(out) + "\n"


def _purpose(path: Path) -> str:
    """The first sentence of a module's docstring, on one line."""
    text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
    if not text:
        raise ValueError(f"{path}: a docstring that says what the module is for is missing")
    line = " ".join(text.partition("\n\n")[0].split())
    return re.split(r"(?<=[.:])\s+(?=[A-Z`])", line)[0].rstrip(".:")


def write_module_list(top: Path) -> str:
    """docs/architecture.md with the list as the modules are now."""
    text = (top / "docs" / "architecture.md").read_text(encoding="utf-8")
    return MARK.sub(lambda _: make_module_list(top), text)


if __name__ == "__main__":
    here = Path(sys.argv[1]) if len(sys.argv) > 1 else Path.cwd()
    (here / "docs" / "architecture.md").write_text(write_module_list(here), encoding="utf-8", newline="\n")
