"""What the terminal shows: results on stdout, progress on stderr and only to a person."""

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console

from placement_sched.errors import Error


def print_json(document: object) -> None:
    """Print ``document`` for machines."""
    sys.stdout.write(json.dumps(document, indent=2, ensure_ascii=False) + "\n")


def sentence(error: Error) -> str:
    """Return the error's sentence, and what the database driver said where that is its cause."""
    said = getattr(error.__cause__, "orig", None)
    told = one_line(error)
    return told if said is None else f"{told}: {one_line(said)}"


def one_line(failure: BaseException) -> str:
    """Return the text of ``failure`` on one line."""
    return " ".join(str(failure).split())


@contextmanager
def waiting(what: str) -> Iterator[None]:
    """Show a person that ``what`` is under way; say nothing where stderr is no terminal."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield
        return
    with console.status(what):
        yield
