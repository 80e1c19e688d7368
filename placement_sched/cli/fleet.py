"""``fleet load`` and ``fleet dump``: a whole cloud in one readable file."""

import argparse
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import groupby
from pathlib import Path

from placement_sched.cli import database as databases
from placement_sched.cli.arguments import Commands, add_command, add_format, add_group
from placement_sched.cli.database import configured
from placement_sched.cli.terminal import print_result, stepping, waiting
from placement_sched.config.settings import Settings
from placement_sched.db.transaction import Database
from placement_sched.errors import Invalid
from placement_sched.model.clock import utcnow
from placement_sched.operations.fleet.load import CHANGED, GONE, NEW, STEPS, Difference, Fleet
from placement_sched.operations.fleet.names import folded_line
from placement_sched.operations.fleet.yaml_file import end_of
from placement_sched.operations.prepare import sync

_SIGNS = {NEW: "+", CHANGED: "~", GONE: "-"}
#: Longer values are cut where a person reads them.
_WIDEST = 60


def register(commands: Commands) -> None:
    """Add the commands."""
    group = add_group(commands, "fleet", "describe a whole cloud in one readable file")
    summary = "apply a file to the cloud, in one transaction; what it leaves out stays"
    epilog = "doc/source/fleet.rst describes the file"
    parser = add_command(group, "load", summary, run_load, epilog=epilog)
    parser.add_argument("file", metavar="FILE", help="the file, in YAML; - is standard input")
    parser.add_argument(
        "--dry-run", action="store_true", help="show what would change, and change nothing"
    )
    add_format(parser)
    summary = "write the file that, loaded into an empty database, makes this cloud again"
    parser = add_command(group, "dump", summary, run_dump)
    help_ = "the file to write (default: standard output)"
    parser.add_argument("file", metavar="FILE", nargs="?", default="-", help=help_)


def run_load(arguments: argparse.Namespace) -> int:
    """Load, and print what changed; with ``--dry-run``, what would."""
    name, text = _read(arguments.file)
    dry_run: bool = arguments.dry_run
    with (
        configured(arguments) as (settings, database),
        _loaded_into(database, settings, dry_run=dry_run) as target,
        stepping(STEPS) as progress,
    ):
        place = databases.shown(database)
        fleet = Fleet(database=target, settings=settings, clock=utcnow)
        changes = fleet.load(text, name, dry_run=dry_run, progress=progress)
    documents = [
        {
            "change": one.what,
            "kind": one.kind,
            "name": one.name,
            "details": {field: {"from": old, "to": new} for field, old, new in one.details},
        }
        for one in changes
    ]
    document = {"database": place, "dry_run": dry_run, "changes": documents}
    print_result(arguments, document, _lines(changes, place, dry_run=dry_run))
    return 0


def run_dump(arguments: argparse.Namespace) -> int:
    """Write the file."""
    with configured(arguments, there=True) as (settings, database), waiting("reading the cloud"):
        text = Fleet(database=database, settings=settings, clock=utcnow).dump()
    if arguments.file == "-":
        sys.stdout.write(text)
        return 0
    try:
        Path(arguments.file).write_text(text, encoding="utf-8")
    except OSError as failure:
        raise Invalid(f"{arguments.file}: {failure.strerror}") from None
    return 0


@contextmanager
def _loaded_into(database: Database, settings: Settings, *, dry_run: bool) -> Iterator[Database]:
    """Yield the database to load into; for a dry run an empty one if there is none yet."""
    if dry_run and databases.is_yet_to_be_made(database):
        with databases.empty_database(settings) as empty:
            yield empty
        return
    if dry_run:
        databases.refuse_absent_file(database)
    elif databases.file_of(database) is not None:
        sync(database, utcnow)
    yield database


def _read(file: str) -> tuple[str, str]:
    """Return the name of a file in messages, and its text."""
    name = "<stdin>" if file == "-" else file
    try:
        content = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
        return name, content.decode("utf-8-sig")
    except OSError as failure:
        raise Invalid(f"{name}: {failure.strerror}") from None
    except UnicodeDecodeError as failure:
        # The object is what was decoded, without a mark at its beginning.
        before, wrong = failure.object[: failure.start], failure.object[failure.start]
        line, column = end_of(before.decode())
        what = f"the byte 0x{wrong:02X} is not UTF-8"
        raise Invalid(f"{name}:{line + 1}:{column + 1}: {what}") from None


def _lines(changes: Sequence[Difference], place: str, *, dry_run: bool) -> Iterator[str]:
    """Yield what changes; things with the same change share a line."""
    for (what, kind, _), group in groupby(
        changes, lambda one: (one.what, one.kind, repr(one.details))
    ):
        alike = list(group)
        yield f"{_SIGNS[what]} {kind} {folded_line([one.name for one in alike])}"
        for field, old, new in alike[0].details:
            yield f"    {field}: {_cut(old)} -> {_cut(new)}"
    would = "would change" if dry_run else "changed"
    yield f"{place}: {len(changes) or 'nothing'} {would}"


def _cut(value: object) -> str:
    text = "none" if value is None else " ".join(str(value).split())
    return text if len(text) <= _WIDEST else f"{text[:_WIDEST]}..."
