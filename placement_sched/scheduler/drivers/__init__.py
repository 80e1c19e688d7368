"""The scheduling drivers."""
