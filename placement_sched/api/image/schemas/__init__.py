"""JSON schemas of the image API, one module per noun."""
