"""Runs beside a nova-scheduler: explains each of its requests, and compares the answers."""
