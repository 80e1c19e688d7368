"""``db sync`` and ``db version``: the schema."""

import argparse
import sys

from placement_sched.cli.arguments import Commands, add_command, add_format, add_group
from placement_sched.cli.database import open_database, shown
from placement_sched.cli.terminal import print_json, waiting
from placement_sched.db.migrate import current_revision, newest_revision
from placement_sched.model.clock import utcnow
from placement_sched.operations.prepare import sync
from placement_sched.scheduler.loading import read_settings


def register(commands: Commands) -> None:
    """Add the commands."""
    group = add_group(commands, "db", summary="create, upgrade and show the database schema")
    parser = add_command(
        group,
        "sync",
        summary="create or upgrade the schema, and the standard traits and resource classes",
    )
    add_format(parser)
    parser.set_defaults(run=run_sync)
    parser = add_command(
        group, "version", summary="show the revision of the schema and the newest one"
    )
    add_format(parser)
    parser.set_defaults(run=run_version)


def run_sync(arguments: argparse.Namespace) -> int:
    """Bring the schema to the newest revision; once there, running it again changes nothing."""
    with open_database(read_settings(arguments.config_file)) as database:
        before = current_revision(database)
        with waiting(f"synchronising the schema of {shown(database)}"):
            sync(database, utcnow)
        report = {
            "database": shown(database),
            "before": before,
            "revision": current_revision(database),
        }
    if arguments.format == "json":
        print_json(report)
    else:
        change = "already at" if before == report["revision"] else "brought to"
        sys.stdout.write(f"{report['database']}: schema {change} revision {report['revision']}\n")
    return 0


def run_version(arguments: argparse.Namespace) -> int:
    """Print the revision of the schema; None is a database without our schema."""
    with open_database(read_settings(arguments.config_file)) as database:
        report = {
            "database": shown(database),
            "revision": current_revision(database),
            "newest": newest_revision(),
        }
    if arguments.format == "json":
        print_json(report)
    else:
        sys.stdout.write(
            f"{report['database']}: schema at revision {report['revision'] or 'none'}, "
            f"newest {report['newest']}\n"
        )
    return 0
