"""Operators' jobs, used by the command line and HTTP alike."""

from collections.abc import Callable

#: How a job says how far it is: takes how much is done, and of how much (None if not known yet).
Progress = Callable[[int, int | None], None]
