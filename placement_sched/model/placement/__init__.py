"""Placement's nouns: providers, allocations, and the question for allocation candidates."""
