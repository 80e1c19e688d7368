"""The scheduler routes, one module per noun."""
