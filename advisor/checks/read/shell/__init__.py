"""Shell text as commands: `words`, `branches` (which one is taken, what variables hold behind it), `commands`."""
