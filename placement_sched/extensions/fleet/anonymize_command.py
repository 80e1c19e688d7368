# SPDX-License-Identifier: Apache-2.0
"""``--anonymize --names``, ``fleet anonymize`` and ``fleet names``."""

import argparse
import json
import sys
from pathlib import Path

from placement_sched.cli.arguments import Commands, WrongArguments, add_command, rejected_arguments
from placement_sched.cli.database import read_command_settings
from placement_sched.cli.output import print_document, read_text, show_waiting, write_text
from placement_sched.config.settings import Settings
from placement_sched.db.transaction import Database
from placement_sched.extensions.fleet.anonymize import anonymize, build_sort_key
from placement_sched.extensions.fleet.fetch import anonymize_source
from placement_sched.extensions.fleet.names import Names
from placement_sched.model.clock import utcnow
from placement_sched.model.document import Json
from placement_sched.operations.fleet.cloud import read_state
from placement_sched.operations.fleet.dump import build_document
from placement_sched.operations.fleet.load import load_file
from placement_sched.operations.prepare import open_temporary_database
from placement_sched.schemas.yaml_file import YamlFile, to_yaml

_NAMES_HELP = (
    "the key and the names of the labels. The file is created if it does not exist, and stays at "
    "home: it translates answers back"
)


def register(group: Commands) -> None:
    """Add the commands to the group of ``fleet``."""
    summary = "write a fleet file with labels in place of names, to share a cloud"
    parser = add_command(group, "anonymize", summary, run_anonymize)
    parser.add_examples("cloud.yaml share.yaml --names names.json")
    parser.add_argument("file", metavar="FILE", help="the fleet file (-: standard input)")
    help_ = "the file to write (default: standard output)"
    parser.add_argument("output", metavar="OUTPUT", nargs="?", default="-", help=help_)
    parser.add_argument("--names", metavar="FILE", type=Path, required=True, help=_NAMES_HELP)
    summary = "print a text or JSON document with names in place of labels"
    parser = add_command(group, "names", summary, run_names, with_nova_conf=None)
    parser.add_examples("names.json answer.txt")
    parser.add_argument("names", metavar="NAMES", type=Path, help="the file of --names")
    help_ = "the text, such as an answer about a shared cloud (default: standard input)"
    parser.add_argument("file", metavar="FILE", nargs="?", default="-", help=help_)


def add_anonymize_arguments(parser: argparse.ArgumentParser) -> None:
    """Add ``--anonymize`` and ``--names``."""
    help_ = "write labels in place of names (requires --names)"
    parser.add_argument("--anonymize", action="store_true", help=help_)
    parser.add_argument("--names", metavar="FILE", type=Path, help=_NAMES_HELP)


def check_anonymize_arguments(arguments: argparse.Namespace) -> None:
    """Reject ``--anonymize`` without ``--names``, and the reverse.

    Raises :class:`WrongArguments`, also for a file that is no file of names.
    """
    if arguments.anonymize != (arguments.names is not None):
        raise WrongArguments("--anonymize and --names FILE require each other")
    if arguments.anonymize:
        read_or_create_names(arguments.names)


def dump_anonymised(
    database: Database, settings: Settings, file: Path, source: Json | None = None
) -> str:
    """Return a fleet file with labels, and add the names to ``file``.

    ``source`` is the section of a fetched file. Raises :class:`Invalid` for a wrong file of names.
    """
    with database.open_snapshot() as connection:
        state = read_state(connection, settings.unknown_owner)
    zone = settings.DEFAULT.default_availability_zone
    state, names = anonymize(state, read_or_create_names(file), zone)
    if source is not None:
        source, names = anonymize_source(source, names)
    # The file of names is complete before a file that needs it exists.
    names.write(file)
    document = build_document(state, settings, utcnow(), build_sort_key(names))
    if source is not None:
        document = {"version": document.pop("version"), "source": source, **document}
    return to_yaml(document)


def read_or_create_names(file: Path) -> Names:
    """Read a file of names, or return a new key if it does not exist."""
    with rejected_arguments():
        return Names.read(file) if file.exists() else Names()


def anonymize_text(text: str, name: str, settings: Settings, file: Path) -> str:
    """Return the text of the fleet file ``name`` with labels.

    Raises :class:`Invalid` for a wrong fleet file or file of names.
    """
    # A fleet file may also be loaded next to a nova.
    settings = settings.with_overrides({"api_database.connection": None})
    with open_temporary_database(settings) as (database, settings_of_file):
        load_file(database, settings_of_file, utcnow, text, name, dry_run=False)
        source = (YamlFile(text, name).data or {}).get("source")
        return dump_anonymised(database, settings, file, source)


def run_anonymize(arguments: argparse.Namespace) -> int:
    """Write a fleet file with labels, and the file of names."""
    text, name = read_text(arguments.file), arguments.file
    settings = read_command_settings(arguments)
    read_or_create_names(arguments.names)
    with show_waiting(f"reading {name}"):
        anonymised = anonymize_text(
            text, "<stdin>" if name == "-" else name, settings, arguments.names
        )
    write_text(arguments.output, anonymised)
    return 0


def run_names(arguments: argparse.Namespace) -> int:
    """Print a text or JSON document with names in place of labels."""
    with rejected_arguments():
        names = Names.read(arguments.names)
        text = read_text(arguments.file)
        try:
            document = json.loads(text)
        except ValueError:
            sys.stdout.write(names.restore(text))
        else:
            print_document(names.restore(document), "json")
    return 0
