"""Checks whether a database and a configuration are ready for this release."""

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path

from oslo_policy import opts as policy_options

from placement_sched.config.settings import Settings
from placement_sched.db import openstack_schema
from placement_sched.db.connection import Connection
from placement_sched.db.migrate import current_revision, newest_revision
from placement_sched.db.transaction import Database
from placement_sched.operations.standards import lacking
from placement_sched.store import census

#: Where oslo.policy looks when there is no file of its default name.
_YAML_POLICY, _JSON_POLICY = "policy.yaml", "policy.json"


class Code(IntEnum):
    """How a check ended; the worst of all is the command's exit status, as placement-status's."""

    SUCCESS = 0
    WARNING = 1
    FAILURE = 2


@dataclass(frozen=True, slots=True)
class Result:
    """What a check said: how it ended and, unless well, what to do."""

    check: str
    code: Code = Code.SUCCESS
    details: str | None = None


def check_upgrade(database: Database, settings: Settings) -> tuple[Result, ...]:
    """Return what each check says. Raises :class:`Unavailable` for a database without answer."""
    schema = _schema(database)
    return (
        schema,
        *_data(database, there=schema.code is not Code.FAILURE),
        _policy_file(settings),
    )


def worst(results: Iterable[Result]) -> Code:
    """Return the gravest code of the results."""
    return max((result.code for result in results), default=Code.SUCCESS)


def _schema(database: Database) -> Result:
    name = "Database Schema"
    with database.read() as connection:
        found = openstack_schema.look(connection)
    own, wanted = current_revision(database), newest_revision()
    if found.complete and own == wanted:
        return Result(name)
    if found.foreign or (found.revisions and found.tables and not found.complete):
        return Result(
            name,
            Code.FAILURE,
            "The database is OpenStack placement's and not taken over. "
            'Run the "placement-sched db adopt" command.',
        )
    return Result(
        name,
        Code.FAILURE,
        f"The schema is at revision {own or 'none'}, this release wants {wanted}. "
        'Run the "placement-sched db sync" command.',
    )


def _data(database: Database, *, there: bool) -> Sequence[Result]:
    """Return the results of the checks of rows; without a schema none can be made."""
    checks: dict[str, Callable[[Connection], tuple[Code, str] | None]] = {
        "Missing Root Provider IDs": _roots,
        "Incomplete Consumers": _consumers,
        "Standard Traits and Resource Classes": _standards,
    }
    if not there:
        unknown = "Not checked, because the schema is not as it should be."
        return [Result(name, Code.FAILURE, unknown) for name in checks]
    with database.read() as connection:
        return [Result(name, *(check(connection) or ())) for name, check in checks.items()]


def _roots(connection: Connection) -> tuple[Code, str] | None:
    if not (number := census.without_root(connection)):
        return None
    return (
        Code.FAILURE,
        (
            f"{number} resource providers have no root provider id, so nothing is allocated from "
            'them. Run the "placement-manage db online_data_migrations" command of OpenStack '
            "placement."
        ),
    )


def _consumers(connection: Connection) -> tuple[Code, str] | None:
    if not (number := census.incomplete_consumers(connection)):
        return None
    return (
        Code.WARNING,
        (
            f"{number} consumers hold allocations and have no record, so no usage of a project "
            'counts them. Run the "placement-manage db online_data_migrations" command of '
            "OpenStack placement."
        ),
    )


def _standards(connection: Connection) -> tuple[Code, str] | None:
    missing = lacking(connection)
    names = [*missing.resource_classes, *missing.traits]
    if not names:
        return None
    return (
        Code.WARNING,
        (
            f"{len(names)} standard traits or resource classes are not in the database, such as "
            f"{names[0]}. The server adds them when it starts; "
            '"placement-sched db sync" does so now.'
        ),
    )


def _policy_file(settings: Settings) -> Result:
    name = "Policy File JSON to YAML Migration"
    conf = settings.conf
    # oslo.policy declares its options only where somebody asks it for a decision.
    for group, options in policy_options.list_opts():
        conf.register_opts(options, group)
    written = conf.oslo_policy.policy_file
    path = conf.find_file(written)
    if path is None and written == _YAML_POLICY:
        path = conf.find_file(_JSON_POLICY)
    if path is None or not _is_json(Path(path)):
        return Result(name)
    return Result(
        name,
        Code.FAILURE,
        f"The policy file {path} is written in JSON, which oslo.policy is giving up. "
        'The "oslopolicy-convert-json-to-yaml" command makes a YAML file of it.',
    )


def _is_json(path: Path) -> bool:
    try:
        json.loads(path.read_bytes())
    except ValueError:
        return False
    return True
