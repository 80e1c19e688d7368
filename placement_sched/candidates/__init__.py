"""The allocation-candidates search, as a list of named steps."""
