"""What JSON documents may hold, in JSON Schema: one definition for the APIs, reports and files."""
