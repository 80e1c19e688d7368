"""Allocation candidate search."""
