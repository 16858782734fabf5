"""Which engine: guides (decision trees in YAML), their evaluation with a trace, and the hard filters of engines."""
