"""Tables, engines, transactions and migrations."""
