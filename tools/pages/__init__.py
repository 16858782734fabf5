"""Pages, pictures and schemas that are made from the rules and help texts: `python -m tools.pages`."""
