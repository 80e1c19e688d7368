"""Verifies what must always hold: in one snapshot of a database, and between two of them."""
