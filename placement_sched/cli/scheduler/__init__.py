"""Commands that ask the scheduler, of a server or on the configured database."""
