"""advisor: which inference engine, does it fit, how fast, on what hardware, and the command that starts it."""

__version__ = "0.1.0"
