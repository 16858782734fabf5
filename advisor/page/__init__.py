"""Answers as one self-contained HTML page: blocks made from the public JSON, figures as SVG, a policy that lets nothing in."""
