"""The scheduler: from a request to a selected and claimed host."""
