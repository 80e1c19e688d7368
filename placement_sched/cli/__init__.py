"""Command line: a thin module per command group."""
