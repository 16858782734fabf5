"""The command `advise`: a module for each command, text in and out."""
