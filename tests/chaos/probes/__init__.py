"""Requests as no client sends them by mistake, and what the service makes of them."""
