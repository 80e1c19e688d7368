"""Integration with an existing nova: scheduler RPC, database sync and shadow mode."""
