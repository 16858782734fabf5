"""Answers as one self-contained HTML page: blocks made from the public JSON, figures as SVG, no request to anywhere."""
