# SPDX-License-Identifier: Apache-2.0
"""Output of commands: tables, documents, reports and progress.

Lists and shows (of a single object) are printed as tables, JSON, YAML, CSV or values. Results go to
stdout, and progress to stderr if it is a terminal.
"""

import argparse
import csv
import json
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from rich import box, progress
from rich.console import Console
from rich.table import Table
from rich.text import Text

from placement_sched.cli.arguments import WrongArguments
from placement_sched.errors import Invalid
from placement_sched.model.names import find_nearest, format_suggestion
from placement_sched.operations import Progress

#: Width of a pipe or file in characters, unless $COLUMNS sets another.
_MAX_WIDTH = 100_000
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_UUID_LENGTH = 36
#: Units of an amount of memory or disk, each 1024 times the previous unit.
_UNITS = ("MiB", "GiB", "TiB")
#: Index of the unit of a resource class.
_UNIT_OF = {"MEMORY_MB": 0, "DISK_GB": 1}


class TextConsole(Console):
    """Console on stdout that writes unpadded whole lines to pipes and files."""

    def __init__(self) -> None:
        self._is_pipe = not sys.stdout.isatty()
        columns = os.environ.get("COLUMNS", "")
        width = int(columns) if columns.isdecimal() and int(columns) else _MAX_WIDTH
        super().__init__(width=width if self._is_pipe else None)

    def print(self, *objects: Any, **options: Any) -> None:
        """Print objects, beyond the edge of a terminal if they do not fit."""
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
    """Read a text file (``-``: standard input), or raise :class:`Invalid`."""
    try:
        if file == "-":
            return sys.stdin.read()
        return Path(file).read_bytes().decode("utf-8-sig")
    except OSError as failure:
        raise Invalid(f"{file}: {failure.strerror}") from None
    except UnicodeDecodeError as failure:
        raise Invalid(f"{file} is not UTF-8: {failure}") from None


def write_text(file: str, text: str) -> None:
    """Write a text file (``-``: standard output), or raise :class:`Invalid`."""
    if file == "-":
        sys.stdout.write(text)
        return
    try:
        Path(file).write_text(text, encoding="utf-8")
    except OSError as failure:
        raise Invalid(f"{file}: {failure.strerror}") from None


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
def show_progress(label: str, *, counts: bool = False) -> Iterator[Progress]:
    """Yield a function that advances a progress bar on a terminal.

    With ``counts``, the bar also shows the amount done and the total.
    """
    console = Console(stderr=True)
    # Output to a terminal is printed above the bar. Output to a file or pipe is not redirected.
    is_redirected = sys.stdout.isatty()
    is_disabled = not console.is_terminal
    columns = [*progress.Progress.get_default_columns()]
    if counts:
        columns.insert(2, progress.MofNCompleteColumn())
    with progress.Progress(
        *columns,
        console=console,
        transient=True,
        redirect_stdout=is_redirected,
        disable=is_disabled,
    ) as bar:
        task = bar.add_task(label, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a list, or a field of a show.

    ``value`` is for programs, ``text`` for people. ``hidden`` columns are shown for ``-c`` only.
    """

    name: str
    value: Callable[[Any], Any]
    text: Callable[[Any], str] | None = None
    right: bool = False
    hidden: bool = False

    def format(self, row: Any) -> str:
        """Return the text of a row for people."""
        return _format_value(self.value(row)) if self.text is None else self.text(row)


@dataclass(frozen=True, slots=True)
class Output:
    """The result of a command: JSON, rows of columns, and text for people."""

    document: Any
    columns: Sequence[Column]
    rows: Sequence[Any]
    report: Callable[[Console], None] | None = None
    is_show: bool = False


def is_report(arguments: argparse.Namespace) -> bool:
    """Return whether the arguments select the text for people."""
    if "receive" in arguments:  # of the openstack command
        return False
    return bool(arguments.format == "table" and not (arguments.column or arguments.sort_column))


def print_output(arguments: argparse.Namespace, output: Output) -> None:
    """Print a result, or pass it to the ``openstack`` command."""
    if receive := getattr(arguments, "receive", None):
        receive(output)
        return
    columns = find_columns(output.columns, arguments.column)
    rows = list(output.rows)
    for name in reversed(arguments.sort_column):
        column = _find(output.columns, name)
        rows.sort(key=lambda row, value=column.value: _build_sort_key(value(row)))  # type: ignore[misc]
    if arguments.format == "table":
        if output.report is not None and is_report(arguments):
            output.report(TextConsole())
        else:
            has_all, is_show = bool(arguments.column), output.is_show
            TextConsole().print(build_table(columns, rows, is_show=is_show, has_all=has_all))
        return
    if arguments.format in {"json", "yaml"}:
        document = output.document
        if arguments.column or arguments.sort_column:
            documents = [{column.name: column.value(row) for column in columns} for row in rows]
            document = documents[0] if output.is_show else documents
        print_document(document, arguments.format)
        return
    if arguments.format == "csv":
        print_csv([column.name for column in columns])
    print_rows(arguments.format, columns, rows, is_show=output.is_show)


def print_rows(
    form: str, columns: Sequence[Column], rows: Sequence[Any], *, is_show: bool = False
) -> None:
    """Print each row as a line, without a header."""
    for row in rows:
        values = [column.value(row) for column in columns]
        if form == "table":
            sys.stdout.write("  ".join(column.format(row) for column in columns) + "\n")
        elif form == "csv":
            print_csv([_format_cell(value) for value in values])
        else:
            words = ["None" if value is None else str(_format_cell(value)) for value in values]
            sys.stdout.write(("\n" if is_show else " ").join(words) + "\n")


def print_csv(values: Sequence[Any]) -> None:
    """Print a line of CSV."""
    csv.writer(sys.stdout, lineterminator="\n", quoting=csv.QUOTE_NONNUMERIC).writerow(values)


def build_table(
    columns: Sequence[Column], rows: Sequence[Any], *, is_show: bool = False, has_all: bool = False
) -> Table:
    """Build a table for people, with ``hidden`` columns if ``has_all``."""
    columns = [column for column in columns if has_all or not column.hidden]
    if is_show:
        table = make_table("Field", "Value")
        for column in columns:
            table.add_row(Text(column.name), Text(column.format(rows[0])))
        return table
    table = make_table(*(column.name for column in columns))
    for heading, column in zip(table.columns, columns, strict=True):
        heading.justify = "right" if column.right else "left"
    for row in rows:
        table.add_row(*(Text(column.format(row)) for column in columns))
    return table


def find_columns(columns: Sequence[Column], names: Sequence[str]) -> Sequence[Column]:
    """Return the columns of these names, or all columns without names."""
    return [_find(columns, name) for name in names] or columns


def _find(columns: Sequence[Column], name: str) -> Column:
    by_key = {_normalize_name(column.name): column for column in columns}
    if _normalize_name(name) not in by_key:
        names = [column.name for column in columns]
        suggestion = format_suggestion(find_nearest(name, names)) or "."
        listing = f"There are: {', '.join(names)}"
        raise WrongArguments(f"there is no column {name!r}{suggestion} {listing}")
    return by_key[_normalize_name(name)]


def _normalize_name(name: str) -> str:
    return name.lower().replace("_", " ").replace("-", " ")


def _build_sort_key(value: Any) -> tuple[int, Any]:
    """Return a sort key that orders numbers before texts, and None last."""
    if value is None:
        return 2, ""
    return (0, value) if isinstance(value, int | float) else (1, str(_format_cell(value)))


def _format_cell(value: Any) -> Any:
    return (
        json.dumps(value, ensure_ascii=False) if isinstance(value, list | tuple | dict) else value
    )


def _format_value(value: Any) -> str:
    if value is None or value in ("", [], {}):
        return "-"
    if isinstance(value, dict):
        return ", ".join(f"{key}={part}" for key, part in value.items())
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def format_amount(resource_class: str, amount: int | None) -> str:
    """Format an amount of a resource class with its unit (``64 GiB``)."""
    if amount is None:
        return "-"
    unit = _UNIT_OF.get(resource_class)
    if unit is None:
        return f"{amount:,}"
    size = float(amount)
    while abs(size) >= 1024 and unit < len(_UNITS) - 1:
        size, unit = size / 1024, unit + 1
    return f"{round(size, 1):g} {_UNITS[unit]}"
