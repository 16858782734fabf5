"""One small module per kind of deployment file; `detect` says which one reads a text."""
