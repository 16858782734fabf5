"""Build hook: ships the compiled form of the rules in the wheel, so that the first start need not read the YAML, and
the manual page and completions of the command where systems look for them."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class CompiledRules(BuildHookInterface):  # type: ignore[type-arg]  # generic in its stubs only
    """Writes advisor/_data/compiled.json and the shells' files into the wheel."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile the rules; an editable install reads the YAML beside the package and needs no copy."""
        if version == "editable":
            return
        root = Path(self.root)
        sys.path.insert(0, str(root))
        try:
            from advisor.catalog.compiled_rules import compile_rules
            from tools.pages.shell_files import make_shell_files

            data = compile_rules([root / "rules"])
            shell_files = make_shell_files()
        finally:
            sys.path.remove(str(root))
        folder = Path(tempfile.mkdtemp(prefix="advisor-build-"))
        out = folder / "compiled.json"
        out.write_bytes(data)
        build_data["force_include"][str(out)] = "advisor/_data/compiled.json"
        for number, (path, text) in enumerate(shell_files.items()):
            made = folder / str(number)
            made.write_text(text, encoding="utf-8", newline="\n")
            build_data["shared_data"][str(made)] = path

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove the temporary copy."""
        import shutil

        for source, target in build_data.get("force_include", {}).items():
            if target == "advisor/_data/compiled.json":
                shutil.rmtree(Path(source).parent, ignore_errors=True)
