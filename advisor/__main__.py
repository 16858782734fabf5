"""`python -m advisor` is the command `advise`."""

from __future__ import annotations

from advisor.cli.main import main

if __name__ == "__main__":
    main()
