"""What is said of a failure, on one line.

Apart from ``terminal``, which loads a library that ``--help`` and ``--version`` can do without.
"""

from placement_sched.errors import Error


def sentence(error: Error) -> str:
    """Return the error's sentence, and what the database driver said where that is its cause."""
    said = getattr(error.__cause__, "orig", None)
    told = one_line(error)
    return told if said is None else f"{told}: {one_line(said)}"


def one_line(failure: BaseException) -> str:
    """Return the text of ``failure`` on one line."""
    return " ".join(str(failure).split())
