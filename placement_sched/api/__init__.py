"""The HTTP APIs, which parse requests, call the scheduler and render answers."""
