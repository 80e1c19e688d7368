"""Explanations of a candidates search: what each constraint removed, and what is nearest."""
