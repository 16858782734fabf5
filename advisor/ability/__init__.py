"""How able a model is for a use, by published tests: the fit (developers' command) and the lookup (shipped rules)."""
