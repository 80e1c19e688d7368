"""From a request to a chosen and claimed host."""
