"""The hosts of a request: what is read and remembered of them, and their host states."""
