"""JSON schemas of the Placement API, one module per noun."""
