# SPDX-License-Identifier: Apache-2.0
"""Terminal output: results on stdout, and progress on stderr if it is a terminal."""

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
    """Print ``document`` as JSON."""
    sys.stdout.write(json.dumps(document, indent=2, ensure_ascii=False) + "\n")


def print_result(arguments: argparse.Namespace, document: object, lines: Iterable[str]) -> None:
    """Print ``document`` as JSON or ``lines`` of text, according to ``--format``."""
    if arguments.format == "json":
        print_json(document)
    else:
        sys.stdout.writelines(f"{line}\n" for line in lines)


def make_table(*headings: str) -> Table:
    """Return a table with a line under its headings, without any columns."""
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 2, 0, 0))
    for heading in headings:
        table.add_column(heading, overflow="fold")
    return table


@contextmanager
def show_waiting(label: str) -> Iterator[None]:
    """Show a spinner with a label on stderr if stderr is a terminal."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield
        return
    with console.status(label):
        yield


@contextmanager
def show_progress(label: str) -> Iterator[Progress]:
    """Yield a function that advances a progress bar, which only a terminal shows."""
    with _progress() as bar:
        task = bar.add_task(label, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


@contextmanager
def show_steps(steps: int) -> Iterator[Callable[[str], None]]:
    """Yield a function to call with a label at the start of each of ``steps`` steps."""
    with _progress() as bar:
        task = bar.add_task("", total=steps)
        yield lambda label: bar.update(task, description=label, advance=1)


def _progress() -> progress.Progress:
    console = Console(stderr=True)
    # Output to a terminal is printed above the bar; output to a file or pipe is not redirected.
    past = sys.stdout.isatty()
    off = not console.is_terminal
    return progress.Progress(console=console, transient=True, redirect_stdout=past, disable=off)
