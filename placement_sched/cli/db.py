"""``db sync``, ``db version`` and ``db adopt``: the schema."""

import argparse
import sys
from collections.abc import Iterator
from dataclasses import asdict

from placement_sched.cli.arguments import Commands, add_command, add_format, add_group
from placement_sched.cli.database import open_database, shown
from placement_sched.cli.terminal import print_json, waiting
from placement_sched.db.migrate import current_revision, newest_revision
from placement_sched.db.openstack_schema import REVISIONS, Found, look
from placement_sched.model.clock import utcnow
from placement_sched.operations.adopt import Adoption, adopt, notes_on
from placement_sched.operations.prepare import sync
from placement_sched.scheduler.loading import read_settings


def register(commands: Commands) -> None:
    """Add the commands."""
    group = add_group(commands, "db", summary="create, upgrade and show the database schema")
    parser = add_command(
        group,
        "sync",
        summary="create or upgrade the schema, and the standard traits and resource classes",
        epilog=(
            "A database that OpenStack placement made is refused until db adopt has taken it over."
        ),
    )
    add_format(parser)
    parser.set_defaults(run=run_sync)
    parser = add_command(
        group,
        "version",
        summary="show whose database it is, the revision of its schema and the newest one",
    )
    add_format(parser)
    parser.set_defaults(run=run_version)
    parser = add_command(
        group,
        "adopt",
        summary="take over an existing OpenStack placement database, which may stay in use",
    )
    add_format(parser)
    parser.set_defaults(run=run_adopt)


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
    """Print whose database it is and the revision of our schema, None where it has none."""
    with open_database(read_settings(arguments.config_file)) as database:
        with database.read() as connection:
            found = look(connection)
        report = {
            "database": shown(database),
            "revision": current_revision(database),
            "newest": newest_revision(),
            "openstack": _openstack_document(found),
            "adopted": found.adopted,
        }
    if arguments.format == "json":
        print_json(report)
    else:
        sys.stdout.write(
            f"{report['database']}: schema at revision {report['revision'] or 'none'}, "
            f"newest {report['newest']}{_owner(found)}\n"
        )
    return 0


def _openstack_document(found: Found) -> dict[str, object] | None:
    """Return the revision of OpenStack placement that the database has, if it made the tables."""
    if not (found.tables and found.revisions):
        return None
    revision = ", ".join(found.revisions)
    return {"revision": revision, "releases": REVISIONS.get(revision)}


def _owner(found: Found) -> str:
    """Return what is to be said of a database that is not this service's own."""
    if found.foreign and not found.revisions:
        return "; its tables of placement were not made by this service"
    if not (found.tables and found.revisions):
        return ""
    revision = ", ".join(found.revisions)
    theirs = f"; OpenStack placement's database of {REVISIONS.get(revision, 'an unknown release')}"
    state = "adopted" if found.adopted else "not adopted (placement-sched db adopt takes it over)"
    return f"{theirs}, revision {revision}, {state}"


def run_adopt(arguments: argparse.Namespace) -> int:
    """Take over an OpenStack placement database and tell what was added; again, nothing is."""
    with open_database(read_settings(arguments.config_file)) as database:
        with waiting(f"adopting {shown(database)}"):
            adoption = adopt(database, utcnow)
        if arguments.format == "json":
            print_json(_adoption_document(shown(database), adoption))
        else:
            sys.stdout.write("\n".join(_adoption_lines(shown(database), adoption)) + "\n")
    return 0


def _adoption_document(database: str, adoption: Adoption) -> dict[str, object]:
    return {
        "database": database,
        "changed": adoption.changed,
        "openstack": {
            "before": adoption.found,
            "releases": adoption.releases,
            "revision": adoption.revision,
        },
        "before": adoption.before,
        "revision": adoption.own_revision,
        "created_tables": list(adoption.created_tables),
        "added_columns": list(adoption.added_columns),
        "created_indexes": list(adoption.created_indexes),
        "added_traits": list(adoption.added.traits),
        "added_resource_classes": list(adoption.added.resource_classes),
        "found": asdict(adoption.census),
        "notes": list(notes_on(adoption)),
    }


def _adoption_lines(database: str, adoption: Adoption) -> Iterator[str]:
    yield (
        f"{database}: OpenStack placement's database of {adoption.releases}, "
        f"revision {adoption.found}"
    )
    if not adoption.changed:
        yield "adopted already, nothing was to do"
    if adoption.created_tables:
        yield f"tables created: {', '.join(adoption.created_tables)}"
    if adoption.added_columns:
        yield f"columns added: {', '.join(adoption.added_columns)}"
    if adoption.created_indexes:
        yield f"indexes created: {', '.join(adoption.created_indexes)}"
    if adoption.added.traits:
        yield f"standard traits added: {len(adoption.added.traits)}"
    if adoption.added.resource_classes:
        yield f"standard resource classes added: {', '.join(adoption.added.resource_classes)}"
    if adoption.before in {None, adoption.own_revision}:
        yield f"own schema: revision {adoption.own_revision}"
    else:
        yield f"own schema: brought from revision {adoption.before} to {adoption.own_revision}"
    counted = adoption.census
    yield (
        f"found: {counted.providers} resource providers ({counted.root_providers} roots), "
        f"{counted.inventories} inventories, {counted.allocations} allocations of "
        f"{counted.consumers} consumers, {counted.aggregates} aggregates, "
        f"{counted.custom_traits} custom traits, "
        f"{counted.custom_resource_classes} custom resource classes"
    )
    for note in notes_on(adoption):
        yield f"note: {note}"
