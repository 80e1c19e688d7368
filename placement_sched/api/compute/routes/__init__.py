"""The compute routes, one module per noun."""
