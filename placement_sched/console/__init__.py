"""Web console: HTML pages on top of the APIs."""
