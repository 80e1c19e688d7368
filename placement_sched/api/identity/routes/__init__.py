"""The identity routes."""
