# SPDX-License-Identifier: Apache-2.0
"""``db sync``, ``db version``, ``db adopt`` and ``db leave``: the schema."""

import argparse
import sys
from collections.abc import Iterator
from dataclasses import asdict

from placement_sched.cli.arguments import Commands, add_command, add_format, add_group
from placement_sched.cli.database import check_file_exists, hide_password, read_configuration
from placement_sched.cli.output import print_result, show_waiting
from placement_sched.config.settings import Settings
from placement_sched.config.sources import ENVIRONMENT
from placement_sched.db.migrate import (
    REVISIONS,
    get_newest_revision,
    inspect_schema,
    read_current_revision,
    stop_logging,
)
from placement_sched.db.transaction import Database
from placement_sched.errors import ConfigurationError
from placement_sched.model.clock import utcnow
from placement_sched.operations.adopt import (
    Adoption,
    adopt,
    describe_adoption,
    leave,
    list_leave_statements,
    plan_adoption,
)
from placement_sched.operations.prepare import sync


def register(commands: Commands) -> None:
    """Add the commands."""
    group = add_group(commands, "db", "create, upgrade and show the database schema")
    summary = "create or upgrade the schema, the standard traits and the resource classes"
    epilog = "A database of OpenStack placement is rejected until db adopt takes it over."
    parser = add_command(group, "sync", summary, _run_sync, epilog=epilog)
    add_format(parser.add_examples("", "--config-file placement_sched.conf"))
    summary = "show the owner of the database, its schema revision and the newest revision"
    add_format(add_command(group, "version", summary, _run_version).add_examples(""))
    summary = "take over an existing OpenStack placement database, which may stay in use"
    parser = add_command(group, "adopt", summary, _run_adopt)
    parser.add_examples("--config-file /etc/placement/placement.conf")
    parser.add_argument("--dry-run", action="store_true", help="print the changes, and make none")
    _add_confirmation(parser)
    summary = "remove the tables and triggers of placement-sched from placement's database"
    epilog = "Stop all servers and services of this product first. OpenStack's data stay."
    parser = add_command(group, "leave", summary, _run_leave, epilog=epilog)
    parser.add_examples(
        "--config-file placement_sched.conf", "--print --config-file placement_sched.conf"
    )
    words = "print the SQL statements, and change nothing"
    parser.add_argument("--print", dest="only_print", action="store_true", help=words)
    _add_confirmation(parser)


def _add_confirmation(parser: argparse.ArgumentParser) -> None:
    words = "change the database although the environment or a file in /etc names it"
    parser.add_argument("--yes", action="store_true", help=words)
    add_format(parser)


def _print_database(arguments: argparse.Namespace, database: Database) -> None:
    """Print server and database, to stderr if the result is a document."""
    url = database.url
    server = f" on {url.host or url.query.get('unix_socket', 'localhost')}"
    output = sys.stdout if arguments.format == "text" else sys.stderr
    output.write(f"database {url.database}{server * (url.get_backend_name() != 'sqlite')}\n")
    output.flush()


def _check_confirmed(arguments: argparse.Namespace, settings: Settings) -> None:
    line = settings.find_assignment("placement_database", "connection")
    if arguments.yes or line is None:
        return
    if line.place.file.startswith(ENVIRONMENT):
        fix = "Confirm it with --yes, or unset the variable"
    elif not getattr(arguments, "is_default_config", False):
        return
    else:
        fix = f"Confirm it with --config-file {line.place.file}, or with --yes"
    raise ConfigurationError(
        f"nothing was changed: {line.place} names the database, not the command line. {fix}"
    )


def _run_sync(arguments: argparse.Namespace) -> int:
    with read_configuration(arguments) as (_, database):
        place, revision_before = hide_password(database), read_current_revision(database)
        with show_waiting(f"synchronising the schema of {place}"):
            sync(database, utcnow)
            stopped = stop_logging(database)
        revision = read_current_revision(database)
    report = {"database": place, "before": revision_before, "revision": revision}
    change = "already at" if revision_before == revision else "brought to"
    lines = [f"{place}: schema {change} revision {revision}"]
    if stopped:
        lines.append("provider changes are no longer logged: the triggers were removed")
    print_result(arguments, report, lines)
    return 0


def _run_version(arguments: argparse.Namespace) -> int:
    with read_configuration(arguments, must_exist=True) as (_, database):
        with database.read() as connection:
            state = inspect_schema(connection)
        place, newest = hide_password(database), get_newest_revision()
        revision = read_current_revision(database)
    origin, owner = None, ""
    if state.tables and state.revisions:
        origin = {"revision": (name := ", ".join(state.revisions)), "releases": REVISIONS.get(name)}
        adopted = f"{'' if state.adopted else 'not '}adopted"
        if state.has_unknown_revision:
            owner = (
                f", with tables named as placement's, but revision {name}, which is not a "
                f"revision of OpenStack placement, {adopted}"
            )
        else:
            releases = origin["releases"] or "a release before Train"
            owner = f", OpenStack placement's database of {releases}, revision {name}, {adopted}"
            if not state.adopted:
                owner += " (placement-sched db adopt takes it over)"
    elif state.foreign:
        owner = ", with placement tables that this service did not create"
    schema = f"{place}: schema at revision {revision or 'none'}, newest {newest}"
    report = {
        "database": place,
        "revision": revision,
        "newest": newest,
        "openstack": origin,
        "adopted": state.adopted,
    }
    print_result(arguments, report, [schema + owner])
    return 0


def _run_adopt(arguments: argparse.Namespace) -> int:
    with read_configuration(arguments) as (settings, database):
        place = hide_password(database)
        _print_database(arguments, database)
        if arguments.dry_run:
            adoption = plan_adoption(database)
        else:
            _check_confirmed(arguments, settings)
            with show_waiting(f"adopting {place}"):
                adoption = adopt(database, utcnow)
    document = _build_document(place, adoption)
    print_result(arguments, document, _format_adoption(place, adoption))
    return 0


def _run_leave(arguments: argparse.Namespace) -> int:
    with read_configuration(arguments) as (settings, database):
        check_file_exists(database)
        place = hide_password(database)
        if arguments.only_print:
            statements = list_leave_statements(database)
            is_mariadb = database.url.get_backend_name() == "mysql"  # commits each statement
            script = statements if is_mariadb else ["BEGIN", *statements, "COMMIT"]
            lines = [f"{statement};" for statement in script]
        else:
            _print_database(arguments, database)
            _check_confirmed(arguments, settings)
            with show_waiting(f"removing placement-sched from {place}"):
                statements = leave(database)
            lines = [f"{place}: tables and triggers of placement-sched removed"]
    print_result(arguments, {"database": place, "statements": statements}, lines)
    return 0


def _build_document(database: str, result: Adoption) -> dict[str, object]:
    return {
        "database": database,
        "changed": result.changed,
        "openstack": {
            "before": result.previous_revision,
            "releases": result.releases,
            "revision": result.revision,
        },
        "before": result.previous_own_revision,
        "revision": result.own_revision,
        "created_tables": result.created_tables,
        "added_columns": result.added_columns,
        "created_indexes": result.created_indexes,
        "added_traits": result.added.traits,
        "added_resource_classes": result.added.resource_classes,
        "found": result.row_counts and asdict(result.row_counts),
        "notes": list(describe_adoption(result)),
    }


def _format_adoption(database: str, done: Adoption) -> Iterator[str]:
    counts = done.row_counts
    created, added_names = ("created", "added") if counts else ("to create", "to add")
    previous = f"{done.releases}, revision {done.previous_revision}"
    yield f"{database}: OpenStack placement's database of {previous}"
    if not done.changed:
        yield "already adopted, nothing to do"
    for added, names in (
        (f"tables {created}", done.created_tables),
        (f"columns {added_names}", done.added_columns),
        (f"indexes {created}", done.created_indexes),
    ):
        if names:
            yield f"{added}: {', '.join(names)}"
    if done.added.traits:
        yield f"standard traits {added_names}: {len(done.added.traits)}"
    if done.added.resource_classes:
        yield f"standard resource classes {added_names}: {', '.join(done.added.resource_classes)}"
    if done.previous_own_revision in {None, done.own_revision}:
        yield f"tables of placement-sched: revision {done.own_revision}"
    else:
        change = f"revision {done.previous_own_revision} to {done.own_revision}"
        upgraded = "upgraded" if counts else "to upgrade"
        yield f"tables of placement-sched: {upgraded} from {change}"
    if counts is None:
        yield "triggers are created too, unless [placement] providers_in_memory = false"
        yield "nothing was changed (--dry-run)"
        return
    yield (
        f"found: resource providers {counts.providers} (roots {counts.root_providers}), "
        f"inventories {counts.inventories}, allocations {counts.allocations}, "
        f"consumers {counts.consumers}, aggregates {counts.aggregates}, "
        f"custom traits {counts.custom_traits}, "
        f"custom resource classes {counts.custom_resource_classes}"
    )
    for note in describe_adoption(done):
        yield f"note: {note}"
