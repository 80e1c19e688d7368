"""Finds and mends allocations that do not match the recorded instances."""
