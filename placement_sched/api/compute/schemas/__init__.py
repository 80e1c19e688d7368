"""JSON schemas of the compute API, one module per noun."""
