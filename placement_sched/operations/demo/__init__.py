"""The demo: a sample cloud, and requests placed on it."""
