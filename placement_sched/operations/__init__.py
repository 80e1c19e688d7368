"""Operators' jobs, used by the command line and HTTP alike."""
