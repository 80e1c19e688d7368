"""Scheduling over HTTP: reports, instances, select_destinations, explain."""
