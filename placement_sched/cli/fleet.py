"""``fleet load`` and ``fleet dump``: a whole cloud in one readable file."""

import argparse
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import groupby
from pathlib import Path
from typing import Any

from placement_sched.cli.arguments import Commands, add_command, add_format, add_group
from placement_sched.cli.database import (
    empty_database,
    is_embedded,
    is_yet_to_be_made,
    open_database,
    refuse_absent_file,
    shown,
)
from placement_sched.cli.terminal import print_json, stepping, waiting
from placement_sched.config.settings import Settings
from placement_sched.db.transaction import Database
from placement_sched.errors import Invalid
from placement_sched.model.clock import utcnow
from placement_sched.operations.fleet.changes import CHANGED, GONE, NEW, Change
from placement_sched.operations.fleet.load import STEPS, Fleet
from placement_sched.operations.fleet.marked import End
from placement_sched.operations.fleet.words import fold_words
from placement_sched.operations.prepare import sync
from placement_sched.scheduler.loading import read_settings

_SIGNS = {NEW: "+", CHANGED: "~", GONE: "-"}
#: Longer values are cut where a person reads them.
_WIDEST = 60


def register(commands: Commands) -> None:
    """Add the commands."""
    group = add_group(commands, "fleet", summary="describe a whole cloud in one readable file")
    parser = add_command(
        group,
        "load",
        summary="make the cloud what a file says, wholly or not at all; what it leaves out stays",
        epilog="doc/source/fleet.rst tells what may stand in the file",
    )
    parser.add_argument("file", metavar="FILE", help="the file, in YAML; - is standard input")
    parser.add_argument(
        "--dry-run", action="store_true", help="show what would change, and change nothing"
    )
    add_format(parser)
    parser.set_defaults(run=run_load)
    parser = add_command(
        group,
        "dump",
        summary="write the file that, loaded into an empty database, makes this cloud again",
    )
    parser.add_argument(
        "file", metavar="FILE", nargs="?", default="-", help="where to (default: standard output)"
    )
    parser.set_defaults(run=run_dump)


def run_load(arguments: argparse.Namespace) -> int:
    """Load, and print what changed; with ``--dry-run``, what would."""
    name, text = _read(arguments.file)
    settings = read_settings(arguments.config_file)
    with open_database(settings) as database:
        place = shown(database)
        with (
            _loaded_into(database, settings, dry_run=arguments.dry_run) as target,
            stepping(STEPS) as told,
        ):
            changes = _fleet(target, settings).load(
                text, name, dry_run=arguments.dry_run, told=told
            )
    if arguments.format == "json":
        print_json(
            {
                "database": place,
                "dry_run": arguments.dry_run,
                "changes": [_document(one) for one in changes],
            }
        )
    else:
        sys.stdout.writelines(f"{line}\n" for line in _lines(changes))
        would = "would change" if arguments.dry_run else "changed"
        sys.stdout.write(f"{place}: {len(changes) or 'nothing'} {would}\n")
    return 0


def run_dump(arguments: argparse.Namespace) -> int:
    """Write the file."""
    settings = read_settings(arguments.config_file)
    with open_database(settings) as database:
        refuse_absent_file(database)
        with waiting("reading the cloud"):
            text = _fleet(database, settings).dump()
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
    """Give the database to load into, prepared; for a dry run an empty one where none is yet."""
    if dry_run and is_yet_to_be_made(database):
        with empty_database(settings) as empty:
            yield empty
        return
    if dry_run:
        refuse_absent_file(database)
    elif is_embedded(database):
        sync(database, utcnow)
    yield database


def _fleet(database: Database, settings: Settings) -> Fleet:
    return Fleet(database=database, settings=settings, clock=utcnow)


def _read(file: str) -> tuple[str, str]:
    """Return what a file is called in messages, and its text."""
    name = "<stdin>" if file == "-" else file
    try:
        content = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
        return name, content.decode("utf-8-sig")
    except OSError as failure:
        raise Invalid(f"{name}: {failure.strerror}") from None
    except UnicodeDecodeError as failure:
        # The object is what was decoded, without a mark at its beginning.
        before, wrong = failure.object[: failure.start], failure.object[failure.start]
        end = End.of(before.decode())
        raise Invalid(
            f"{name}:{end.line + 1}:{end.column + 1}: the byte 0x{wrong:02X} is no UTF-8"
        ) from None


def _document(change: Change) -> dict[str, Any]:
    return {
        "change": change.what,
        "kind": change.kind,
        "name": change.name,
        "details": {place: {"from": old, "to": new} for place, old, new in change.details},
    }


def _lines(changes: Sequence[Change]) -> Iterator[str]:
    """Yield what changes; things to which the same happens share a line."""

    def told(change: Change) -> tuple[str, str, str]:
        return change.what, change.kind, repr(change.details)

    for (what, kind, _), group in groupby(changes, told):
        alike = list(group)
        yield f"{_SIGNS[what]} {kind} {fold_words([one.name for one in alike])}"
        for place, old, new in alike[0].details:
            yield f"    {place}: {_cut(old)} -> {_cut(new)}"


def _cut(value: object) -> str:
    text = "none" if value is None else " ".join(str(value).split())
    return text if len(text) <= _WIDEST else f"{text[:_WIDEST]}..."
