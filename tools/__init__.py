"""What maintainers run from a checkout (`python -m tools.…`): pages, fits, accuracy. The package never imports it."""
