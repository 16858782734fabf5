"""Measuring a server that runs, compared with what was predicted for it."""
