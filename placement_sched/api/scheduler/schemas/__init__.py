"""JSON schemas of the scheduler API, one module per noun."""
