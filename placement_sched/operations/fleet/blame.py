"""Which entry of a fleet file is to blame where a rule is against what it says."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from placement_sched.errors import ConcurrentUpdate, Conflict, Error, Invalid, NotFound


class AgainstError(Exception):
    """A rule is against an entry: what was raised, and the keys that lead to the entry."""

    def __init__(self, cause: Error, keys: Sequence[str | int]) -> None:
        super().__init__(cause.detail)
        self.cause = cause
        self.keys = keys


@contextmanager
def blamed(what: str, *keys: str | int) -> Iterator[None]:
    """Let a refusal within be one of ``what``, told at these keys, as :class:`AgainstError`.

    That somebody was faster is nobody's fault, and goes up as it is.
    """
    try:
        yield
    except ConcurrentUpdate:
        raise
    except (Conflict, Invalid, NotFound) as error:
        told = type(error)(f"{what}: {error.detail}", code=error.code, extra=error.extra)
        raise AgainstError(told, keys) from None
