"""What the terminal shows: results on stdout, progress on stderr and only to a person."""

import argparse
import json
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from rich import box, progress
from rich.console import Console
from rich.table import Table

from placement_sched.operations import Progress


def print_json(document: object) -> None:
    """Print ``document`` for machines."""
    sys.stdout.write(json.dumps(document, indent=2, ensure_ascii=False) + "\n")


def print_result(arguments: argparse.Namespace, document: object, lines: Iterable[str]) -> None:
    """Print a result in the ``--format`` asked for: ``document`` as JSON, or ``lines`` of text."""
    if arguments.format == "json":
        print_json(document)
    else:
        sys.stdout.writelines(f"{line}\n" for line in lines)


def headed_table(*headings: str) -> Table:
    """Return a table with a line under its headings; columns may be added."""
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 2, 0, 0))
    for heading in headings:
        table.add_column(heading, overflow="fold")
    return table


@contextmanager
def waiting(what: str) -> Iterator[None]:
    """Show a spinner with ``what`` on stderr, where stderr is a terminal."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield
        return
    with console.status(what):
        yield


@contextmanager
def progressing(what: str) -> Iterator[Progress]:
    """Give a function that moves a bar on stderr, shown only on a terminal."""
    with _progress() as bar:
        task = bar.add_task(what, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


@contextmanager
def stepping(steps: int) -> Iterator[Callable[[str], None]]:
    """Give a function to call at the start of each of ``steps``; moves a bar on stderr."""
    with _progress() as bar:
        task = bar.add_task("", total=steps)
        yield lambda what: bar.update(task, description=what, advance=1)


def _progress() -> progress.Progress:
    console = Console(stderr=True)
    # What a command prints meanwhile goes past the bar, but never from a file or pipe to stderr.
    past = sys.stdout.isatty()
    off = not console.is_terminal
    return progress.Progress(console=console, transient=True, redirect_stdout=past, disable=off)
