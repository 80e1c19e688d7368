"""Commands of the scheduler, with a server or the configured database."""
