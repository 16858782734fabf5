"""Estimates against measured rows: docs/accuracy.md."""
