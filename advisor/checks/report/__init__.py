"""Findings and verdicts out: text, JSON, SARIF, JUnit and what CI services read; baselines and comparisons."""
