"""The architecture of a model, and readers of its files."""
