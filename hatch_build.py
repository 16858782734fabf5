"""Build hook: ships the compiled form of the rules in the wheel, so that the first start need not read the YAML."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class CompiledRules(BuildHookInterface):  # type: ignore[type-arg]  # generic in its stubs only
    """Writes advisor/_data/compiled.json into the wheel."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile the rules; an editable install reads the YAML beside the package and needs no copy."""
        if version == "editable":
            return
        root = Path(self.root)
        sys.path.insert(0, str(root))
        try:
            from advisor.catalog.compiled_rules import compile_rules

            data = compile_rules([root / "rules"])
        finally:
            sys.path.remove(str(root))
        folder = Path(tempfile.mkdtemp(prefix="advisor-build-"))
        out = folder / "compiled.json"
        out.write_bytes(data)
        build_data["force_include"][str(out)] = "advisor/_data/compiled.json"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove the temporary copy."""
        import shutil

        for source, target in build_data.get("force_include", {}).items():
            if target == "advisor/_data/compiled.json":
                shutil.rmtree(Path(source).parent, ignore_errors=True)
