"""Arithmetic of memory without names of engines in it."""
