"""The fit of abilities to published scores."""
