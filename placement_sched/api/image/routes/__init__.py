"""The image routes, one module per noun."""
