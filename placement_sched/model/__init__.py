"""Frozen values and pure rules: no I/O here."""
