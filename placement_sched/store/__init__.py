"""All SQL by noun: takes a connection, returns model values, never commits."""
