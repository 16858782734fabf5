"""Measuring a server that runs, beside what was predicted for it."""
