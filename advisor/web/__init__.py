"""`advise serve`: the answers over HTTP with OpenAPI, metrics, and a page with sliders."""
