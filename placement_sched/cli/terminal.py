"""What the terminal shows: results on stdout, progress on stderr and only to a person."""

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import Progress


def print_json(document: object) -> None:
    """Print ``document`` for machines."""
    sys.stdout.write(json.dumps(document, indent=2, ensure_ascii=False) + "\n")


@contextmanager
def waiting(what: str) -> Iterator[None]:
    """Show a person that ``what`` is under way; say nothing where stderr is no terminal."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield
        return
    with console.status(what):
        yield


#: Told how much is done, and of how much (None where nobody knows yet).
Told = Callable[[int, int | None], None]


@contextmanager
def progressing(what: str) -> Iterator[Told]:
    """Give a function that moves a bar on stderr, which only a person sees."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda _done, _total: None
        return
    # What a command prints meanwhile goes past the bar, but never from a file or pipe to stderr.
    past = sys.stdout.isatty()
    with Progress(console=console, transient=True, redirect_stdout=past) as bar:
        task = bar.add_task(what, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


@contextmanager
def stepping(steps: int) -> Iterator[Callable[[str], None]]:
    """Give a function that is told which of ``steps`` begins; a person sees a bar on stderr."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda _what: None
        return
    # What a command prints meanwhile goes past the bar, but never from a file or pipe to stderr.
    past = sys.stdout.isatty()
    with Progress(console=console, transient=True, redirect_stdout=past) as bar:
        task = bar.add_task("", total=steps)

        def begin(what: str) -> None:
            bar.update(task, description=what, advance=1)

        yield begin
