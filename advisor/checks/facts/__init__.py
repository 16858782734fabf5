"""The named facts that rules ask about a launch. Each module holds one concern and writes its facts down."""

from advisor.checks.facts import arguments, cluster, fit, hardware, images, llama, model, parallel, setup  # noqa: F401
