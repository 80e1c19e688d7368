"""Requests as they come in: what they name is looked up, what they leave out is derived."""
