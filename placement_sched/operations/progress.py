"""How an operation says how far it is."""

from collections.abc import Callable

#: Takes how much is done, and of how much (None where that is not known yet).
Progress = Callable[[int, int | None], None]
