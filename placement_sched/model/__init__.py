"""Frozen values and pure rules, without I/O."""
