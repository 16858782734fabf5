"""Shell text as commands: `tree` (the grammar), `words`, `branches` (what variables hold behind them), `commands`."""
