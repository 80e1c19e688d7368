"""The Placement routes, one module per noun."""
