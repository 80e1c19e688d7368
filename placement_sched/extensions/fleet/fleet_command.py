# SPDX-License-Identifier: Apache-2.0
"""``fleet load`` and ``fleet dump``: a whole cloud in a readable file."""

import argparse
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import groupby

from placement_sched.cli import database as databases
from placement_sched.cli.arguments import Commands, add_command, add_format, add_group
from placement_sched.cli.database import read_configuration
from placement_sched.cli.output import print_result, read_text, show_waiting, write_text
from placement_sched.config.settings import Settings
from placement_sched.db.transaction import Database
from placement_sched.extensions.fleet import anonymize_command, fetch_command
from placement_sched.model.clock import utcnow
from placement_sched.model.names import shorten_names
from placement_sched.operations.fleet.cloud import fold
from placement_sched.operations.fleet.load import (
    CHANGED,
    GONE,
    NEW,
    Difference,
    dump_file,
    load_file,
)
from placement_sched.operations.prepare import open_temporary_database, sync

_SIGNS = {NEW: "+", CHANGED: "~", GONE: "-"}
#: Maximum length of a value in the text output, in characters.
_MAX_VALUE = 60


def register(commands: Commands) -> None:
    """Add the commands."""
    group = add_group(commands, "fleet", "describe a whole cloud in a readable file")
    summary = (
        "apply a file to the cloud, in a single transaction, without changes to absent sections"
    )
    epilog = "The page fleet of the documentation describes the file."
    parser = add_command(group, "load", summary, run_load, epilog=epilog)
    parser.add_examples("cloud.yaml --dry-run", "cloud.yaml")
    parser.add_argument("file", metavar="FILE", help="the file, in YAML (-: standard input)")
    parser.add_argument(
        "--dry-run", action="store_true", help="show the changes without making them"
    )
    add_format(parser)
    summary = "write a file that recreates this cloud if loaded into an empty database"
    parser = add_command(group, "dump", summary, run_dump).add_examples(
        "dump.yaml", "share.yaml --anonymize --names names.json"
    )
    help_ = "the file to write (default: standard output)"
    parser.add_argument("file", metavar="FILE", nargs="?", default="-", help=help_)
    anonymize_command.add_anonymize_arguments(parser)
    anonymize_command.register(group)
    fetch_command.register(group)


def run_load(arguments: argparse.Namespace) -> int:
    """Load the file and print the changes.

    With ``--dry-run`` the changes are only printed.
    """
    text = read_text(arguments.file)
    name = "<stdin>" if arguments.file == "-" else arguments.file
    dry_run: bool = arguments.dry_run
    with (
        read_configuration(arguments) as (settings, database),
        _open_target(database, settings, dry_run=dry_run) as target,
        show_waiting(f"loading {name}"),
    ):
        place = databases.hide_password(database)
        changes = load_file(target, settings, utcnow, text, name, dry_run=dry_run)
    documents = [
        {
            "change": change.action,
            "kind": change.kind,
            "name": change.name,
            "details": {field: {"from": old, "to": new} for field, old, new in change.details},
        }
        for change in changes
    ]
    document = {"database": place, "dry_run": dry_run, "changes": documents}
    print_result(arguments, document, _format_changes(changes, place, dry_run=dry_run))
    return 0


def run_dump(arguments: argparse.Namespace) -> int:
    """Write the cloud of the database to a fleet file.

    The file ``-`` is the standard output.
    """
    anonymize_command.check_anonymize_arguments(arguments)
    with (
        read_configuration(arguments, must_exist=True) as (settings, database),
        show_waiting("reading the cloud"),
    ):
        if arguments.anonymize:
            text = anonymize_command.dump_anonymised(database, settings, arguments.names)
        else:
            text = dump_file(database, settings, utcnow)
    write_text(arguments.file, text)
    return 0


@contextmanager
def _open_target(database: Database, settings: Settings, *, dry_run: bool) -> Iterator[Database]:
    """Yield the target database.

    If it does not exist, a dry run gets an empty temporary database.
    """
    if dry_run and databases.is_missing(database):
        with open_temporary_database(settings) as (empty, _):
            yield empty
        return
    if dry_run:
        databases.check_file_exists(database)
    elif databases.find_file(database) is not None:
        sync(database, utcnow)
    yield database


def _format_changes(changes: Sequence[Difference], place: str, *, dry_run: bool) -> Iterator[str]:
    """Yield a line per change, for all objects with the same change."""
    for (change_type, kind, _), group in groupby(
        changes, lambda change: (change.action, change.kind, repr(change.details))
    ):
        same = list(group)
        names = shorten_names(fold([change.name for change in same]), 10)
        yield f"{_SIGNS[change_type]} {kind} {names}"
        for field, old, new in same[0].details:
            yield f"    {field}: {_cut(old)} -> {_cut(new)}"
    would = "would change" if dry_run else "changed"
    yield f"{place}: {len(changes) or 'nothing'} {would}"


def _cut(value: object) -> str:
    text = "none" if value is None else " ".join(str(value).split())
    return text if len(text) <= _MAX_VALUE else f"{text[:_MAX_VALUE]}..."
