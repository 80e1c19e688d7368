# SPDX-License-Identifier: Apache-2.0
"""Input files, results on stdout, and progress on stderr if it is a terminal."""

import argparse
import json
import os
import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml
from rich import box, progress
from rich.console import Console
from rich.table import Table

from placement_sched.errors import Invalid
from placement_sched.operations import Progress

#: Width of a pipe or file in characters, unless $COLUMNS sets another.
_MAX_WIDTH = 100_000
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_UUID_LENGTH = 36


class TextConsole(Console):
    """Console on stdout, which writes whole lines without padding to a pipe or file."""

    def __init__(self) -> None:
        self._is_pipe = not sys.stdout.isatty()
        columns = os.environ.get("COLUMNS", "")
        width = int(columns) if columns.isdecimal() and int(columns) else _MAX_WIDTH
        super().__init__(width=width if self._is_pipe else None)

    def print(self, *objects: Any, **options: Any) -> None:
        """Print objects.

        Columns that do not fit the terminal continue beyond its edge.
        """
        options["crop"] = False
        if not self._is_pipe:
            super().print(*objects, **options)
            return
        with self.capture() as capture:
            super().print(*objects, **options)
        lines = capture.get().splitlines()
        sys.stdout.writelines(f"{line.rstrip()}\n" for line in lines)


class TextTable(Table):
    """Table whose columns are at least as wide as the UUIDs in them."""

    def add_row(self, *cells: Any, **options: Any) -> None:
        """Add a row of texts or renderables."""
        super().add_row(*cells, **options)
        for column, cell in zip(self.columns, cells, strict=False):
            if _UUID.search(str(cell)):
                column.min_width = _UUID_LENGTH
                column.no_wrap = _UUID.fullmatch(str(cell)) is not None


def read_text(file: str) -> str:
    """Return the text of a file (``-`` is standard input), or raise :class:`Invalid`."""
    try:
        if file == "-":
            return sys.stdin.read()
        return Path(file).read_bytes().decode("utf-8-sig")
    except OSError as failure:
        raise Invalid(f"{file}: {failure.strerror}") from None
    except UnicodeDecodeError as failure:
        raise Invalid(f"{file} is not UTF-8: {failure}") from None


def print_document(document: object, form: str) -> None:
    """Print ``document`` as ``json`` or ``yaml``."""
    as_json = json.dumps(document, indent=2, ensure_ascii=False) + "\n"
    sys.stdout.write(format_yaml(document) if form == "yaml" else as_json)


def format_yaml(document: object) -> str:
    """Return ``document`` as YAML."""
    plain = json.loads(json.dumps(document))  # enumerations and tuples are no YAML
    text: str = yaml.safe_dump(plain, allow_unicode=True, sort_keys=False, width=_MAX_WIDTH)
    return text


def print_result(arguments: argparse.Namespace, document: object, lines: Iterable[str]) -> None:
    """Print ``document`` or ``lines`` of text, according to ``--format``."""
    if arguments.format == "text":
        sys.stdout.writelines(f"{line}\n" for line in lines)
    else:
        print_document(document, arguments.format)


def count_noun(number: int, noun: str) -> str:
    """Join a number with its noun, as ``1 host`` or ``2 hosts``."""
    return f"{number} {noun}{'s' * (number != 1)}"


def make_table(*headings: str) -> TextTable:
    """Create a table with these columns, and a line under the headings."""
    table = TextTable(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 2, 0, 0))
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
    console = Console(stderr=True)
    # Output to a terminal is printed above the bar; output to a file or pipe is not redirected.
    past = sys.stdout.isatty()
    off = not console.is_terminal
    with progress.Progress(
        console=console, transient=True, redirect_stdout=past, disable=off
    ) as bar:
        task = bar.add_task(label, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)
