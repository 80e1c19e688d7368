"""Sync of this service's records with nova's databases."""
