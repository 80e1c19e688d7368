"""Explanations of a run: the funnel of its stages, and verdicts on single hosts."""
