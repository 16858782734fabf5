"""Deployment files in, launches out: what a file starts, with the place of every word."""
