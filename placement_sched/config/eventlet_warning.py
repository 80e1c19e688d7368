"""oslo's libraries load eventlet, which warns of its own use; nobody here uses it."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def eventlet_unheard() -> Iterator[None]:
    """Keep eventlet's warning back while something is loaded that loads it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
