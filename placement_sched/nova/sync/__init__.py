"""Keeps what is recorded here of the cloud in step with nova's databases."""
