"""What rules find once for each argument, variable or parameter of a launch."""

from __future__ import annotations

from advisor.checks.rules.flag_matches import (
    abbreviated,
    bad_json,
    bad_values,
    config_keys,
    engine_keys,
    flash_values,
    missing_values,
    newer_flags,
    removed_flags,
    stray_values,
    unknown_flags,
)
from advisor.checks.rules.rule_match import MatchFinder
from advisor.checks.rules.value_matches import (
    helm_keys,
    kv_types,
    left_open,
    modelfile_deprecated,
    modelfile_unknown,
    near_models,
    quantizations,
    removed_variables,
    secrets,
    unknown_variables,
    unmounted_files,
    values_of_release,
)

EACH: dict[str, MatchFinder] = {
    "removed_flags": removed_flags,
    "unknown_flags": unknown_flags,
    "newer_flags": newer_flags,
    "bad_values": bad_values,
    "abbreviated": abbreviated,
    "stray_values": stray_values,
    "missing_values": missing_values,
    "config_keys": config_keys,
    "engine_keys": engine_keys,
    "bad_json": bad_json,
    "removed_variables": removed_variables,
    "unknown_variables": unknown_variables,
    "secrets": secrets,
    "modelfile_deprecated": modelfile_deprecated,
    "modelfile_unknown": modelfile_unknown,
    "kv_types": kv_types,
    "quantizations": quantizations,
    "helm_keys": helm_keys,
    "near_models": near_models,
    "left_open": left_open,
    "flash_values": flash_values,
    "unmounted_files": unmounted_files,
    "values_of_release": values_of_release,
}


BY_VERSION = frozenset(
    (
        "removed_flags",
        "unknown_flags",
        "removed_variables",
        "quantizations",
        "flash_values",
        "kv_types",
        "values_of_release",
        "engine_keys",
    )
)

# What holds for any program with flags: all that is asked of routers, which load no model.
OF_FLAGS = frozenset(
    (
        "removed_flags",
        "unknown_flags",
        "newer_flags",
        "bad_values",
        "values_of_release",
        "abbreviated",
        "stray_values",
        "missing_values",
    )
)
