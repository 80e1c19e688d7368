"""Keeps provider aggregates and traits in step with host aggregates."""
