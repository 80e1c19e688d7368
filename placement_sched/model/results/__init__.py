"""What a run of the scheduler finds: selections, the explanation, and the recorded decision."""
