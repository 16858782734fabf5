"""Which tests have which marker, by place: pyproject.toml says what each means, `make check` when each is run."""

from __future__ import annotations

MARKED = {
    "house": ("house",),
    "rules": (
        "advice/test_live_prices.py",
        "catalog/test_hardware_names.py",
        "catalog/test_rules_data.py",
        "check/test_flag_tables.py",
        "check/test_reference.py",
        "check/test_rules.py",
        "decision/test_advisor_guide.py",
        "decision/test_guide_files.py",
        "decision/test_policy.py",
        "decision/test_source_guides.py",
        "golden",
        "memory/test_published_sizes.py",
        "render/test_flags.py",
        "report/test_engine_pages.py",
    ),
    "measured": (
        "golden/test_reference_answers.py",
        "memory/test_llama_cpp_rows.py",
        "memory/test_published_sizes.py",
        "memory/test_vllm_rows.py",
        "report/test_accuracy.py",
        "speed/test_calibration.py",
    ),
    "documents": (
        "test_commands_of_docs.py",
        "page/test_pictures.py",
        "test_docs.py",
        "test_sweeps.py",
        "check/test_reference.py",
        "report/test_accuracy.py",
        "report/test_engine_pages.py",
    ),
    "programs": (
        "check/test_flags_against_llama_server.py",
        "check/test_shell.py",
        "e2e",
        "render/test_outside.py",
        "render/test_quoting.py",
    ),
}
