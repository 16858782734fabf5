"""`advise migrate`: from one engine to another."""
