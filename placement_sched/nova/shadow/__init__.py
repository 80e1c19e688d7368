"""Shadow mode: evaluates nova-scheduler's requests alongside it and compares the results."""
