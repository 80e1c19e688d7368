# SPDX-License-Identifier: Apache-2.0
"""Triggers on the tables of OpenStack placement that write the change log.

In the transaction of a writer, the triggers insert the providers of each statement into
``sched_provider_changes``. They run with the privileges of the user that created them, so that the
database user of OpenStack placement needs no privileges on the tables of this service.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, NamedTuple

import sqlalchemy as sa
from oslo_log import log
from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError

from placement_sched.db import sql
from placement_sched.db.errors import build_grant, get_error_code
from placement_sched.model.names import shorten_names

LOG = log.getLogger(__name__)

#: Special values of ``provider_id``: a trait, resource class or aggregate was written; a table was
#: truncated, or triggers were created or removed; a long transaction ended.
NAMES, EVERYTHING, LONG = 0, -1, -2

#: The provider id column of each table.
_PROVIDERS: Mapping[str, str] = {
    "allocations": "resource_provider_id",
    "inventories": "resource_provider_id",
    "resource_provider_aggregates": "resource_provider_id",
    "resource_provider_traits": "resource_provider_id",
    "resource_providers": "id",
}
_NAMES = ("placement_aggregates", "resource_classes", "traits")
#: The tables whose changes are logged.
LOGGED = (*_PROVIDERS, *_NAMES)
_EVENTS: Mapping[str, str] = {"inserted": "INSERT", "updated": "UPDATE", "deleted": "DELETE"}

_CASCADING_KEYS = sa.text(
    "SELECT constraint_name FROM information_schema.referential_constraints "
    "WHERE constraint_schema = DATABASE() AND table_name IN :tables AND "
    "(update_rule NOT IN ('RESTRICT', 'NO ACTION') OR delete_rule NOT IN ('RESTRICT', 'NO ACTION'))"
).bindparams(sa.bindparam("tables", expanding=True))

_LIST_TRIGGERS: Mapping[str, str] = {
    "sqlite": "SELECT tbl_name, name FROM sqlite_master WHERE type = 'trigger'",
    "postgresql": (
        "SELECT c.relname, t.tgname FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid "
        "WHERE c.relnamespace = current_schema()::regnamespace AND t.tgenabled IN ('O', 'A') "
        "AND NOT t.tgisinternal"
    ),
    # MySQL and MariaDB list only triggers on tables for which the user has the TRIGGER privilege.
    "mysql": (
        "SELECT event_object_table, trigger_name FROM information_schema.triggers "
        "WHERE trigger_schema = DATABASE()"
    ),
}

# insufficient_privilege; TRIGGER, SUPER, and SUPER if there is a binary log.
_MISSING_PRIVILEGE = {"42501", 1142, 1227, 1419, 1044}


class _Trigger(NamedTuple):
    table: str
    name: str
    statement: str


def write_entry(connection: Connection, value: int) -> None:
    """Write :data:`EVERYTHING` or :data:`LONG` to the change log."""
    now = sql.build_time(connection)
    connection.exec_driver_sql(
        f"INSERT INTO sched_provider_changes (provider_id, created_at) VALUES ({value}, {now})"  # noqa: S608
    )


def find_missing_triggers(connection: Connection) -> frozenset[str]:
    """Return the names of the triggers that are missing or disabled."""
    kind = connection.dialect.name
    existing = connection.exec_driver_sql(_LIST_TRIGGERS.get(kind, _LIST_TRIGGERS["mysql"])).all()
    expected = {(trigger.table, trigger.name) for trigger in _build_triggers(connection)}
    return frozenset(
        name for _, name in expected - {(str(table), str(name)) for table, name in existing}
    )


def has_triggers(connection: Connection) -> bool:
    """Return whether any of the triggers exists."""
    return len(find_missing_triggers(connection)) < len(list(_build_triggers(connection)))


def remove_triggers(connection: Connection) -> None:
    """Remove triggers if allowed, and make readers load all providers."""
    missing = find_missing_triggers(connection)
    existing = [trigger for trigger in _build_triggers(connection) if trigger.name not in missing]

    def drop() -> None:
        for trigger in existing:
            _drop(connection, trigger)

    if rejection := _run_if_allowed(connection, drop):
        LOG.warning(
            "the triggers that log changes for [placement] providers_in_memory remain, because the "
            "database user may not remove them: %s",
            rejection,
        )
    else:
        write_entry(connection, EVERYTHING)


def list_removal_statements(connection: Connection) -> list[str]:
    """List SQL that removes triggers, even invisible, and functions."""
    if connection.dialect.name == "postgresql":
        columns = sorted(set(_PROVIDERS.values()))
        names = [*(f"sched_log_by_{column}" for column in columns), "sched_log_names"]
        return [f"DROP FUNCTION IF EXISTS {name}() CASCADE" for name in names]
    return [f"DROP TRIGGER IF EXISTS {each.name}" for each in _build_triggers(connection)]


def _run_if_allowed(connection: Connection, work: Callable[[], None]) -> BaseException | None:
    """Run ``work``, and return the error of a missing privilege, or None.

    PostgreSQL then rolls back ``work``, whereas MariaDB commits each trigger statement. Other
    errors are raised.
    """
    try:
        if connection.dialect.name == "postgresql":
            with connection.begin_nested():
                work()
        else:
            work()
    except DBAPIError as failure:
        if get_error_code(failure.orig) not in _MISSING_PRIVILEGE:
            raise
        return failure.orig
    return None


def _drop(connection: Connection, trigger: _Trigger) -> None:
    of_table = f" ON {trigger.table}" if connection.dialect.name == "postgresql" else ""
    connection.exec_driver_sql(f"DROP TRIGGER IF EXISTS {trigger.name}{of_table}")


def make_triggers(connection: Connection) -> None:
    """Create missing triggers, or none if a privilege is missing."""
    if not (missing := find_missing_triggers(connection)):
        return
    rejection = _run_if_allowed(connection, partial(_create, connection, missing))
    if rejection is None:
        # Earlier writes are missing in the log: its readers must load everything again.
        write_entry(connection, EVERYTHING)
        return
    if connection.dialect.name == "postgresql":
        instructions = "Let it own the tables, and CREATE functions in their schema,"
    else:
        instructions = (
            "Grant it TRIGGER, set log_bin_trust_function_creators = ON if there is a binary log,"
        )
        created = missing - find_missing_triggers(connection)
        for trigger in _build_triggers(connection):
            if trigger.name in created:
                _drop(connection, trigger)
    LOG.warning(
        "[placement] providers_in_memory has no effect: the database user may not create the "
        "triggers that log changes: %s. %s%s and run placement-sched db sync again, or set the "
        "option to false",
        rejection,
        f"Run {grant}. " if (grant := build_grant(str(rejection))) else "",
        instructions,
    )


def _create(connection: Connection, missing: frozenset[str]) -> None:
    if connection.dialect.name == "postgresql":
        for statement in _build_function_statements(connection):
            connection.exec_driver_sql(statement)
    for trigger in _build_triggers(connection):
        if trigger.name in missing:
            if connection.dialect.name == "postgresql":  # replace a disabled trigger
                _drop(connection, trigger)
            connection.exec_driver_sql(trigger.statement)
            if connection.dialect.name == "postgresql":
                # ALWAYS fires in replication sessions, too.
                connection.exec_driver_sql(
                    f"ALTER TABLE {trigger.table} ENABLE ALWAYS TRIGGER {trigger.name}"
                )


def _build_triggers(connection: Connection) -> Iterator[_Trigger]:
    kind = connection.dialect.name
    if kind == "postgresql":
        return _build_postgresql_triggers()
    return _build_row_triggers(_build_sqlite_body if kind == "sqlite" else _build_mariadb_body)


def _build_row_triggers(body: Callable[[str, str | None], str]) -> Iterator[_Trigger]:
    for table, column in {**_PROVIDERS, **dict.fromkeys(_NAMES)}.items():
        for action, event in _EVENTS.items():
            name = f"sched_{table}_{action}"
            yield _Trigger(
                table,
                name,
                f"CREATE TRIGGER {name} AFTER {event} ON {table} FOR EACH ROW "
                f"BEGIN {body(event, column)} END",
            )


def _build_provider_expressions(event: str, column: str | None) -> tuple[str, str | None]:
    """Return SQL for a row's provider, and for its provider before an UPDATE."""
    if column is None:
        return str(NAMES), None
    return {
        "INSERT": (f"NEW.{column}", None),
        "UPDATE": (f"NEW.{column}", f"OLD.{column}"),
        "DELETE": (f"OLD.{column}", None),
    }[event]


def _build_sqlite_body(event: str, column: str | None) -> str:
    # A row replaced by INSERT OR REPLACE is logged with the provider of the new row. It is the same
    # provider, unless the statement sets the row's id, which neither service does.
    insert = (
        "INSERT INTO sched_provider_changes (provider_id, created_at) "
        "SELECT {}, strftime('%Y-%m-%d %H:%M:%f', 'now')"
    )
    new, old = _build_provider_expressions(event, column)
    old_provider = f"{insert.format(old)} WHERE {old} <> {new};" if old else ""
    return f"{insert.format(new)}; {old_provider}"


def _build_mariadb_body(event: str, column: str | None) -> str:
    insert = (
        "INSERT INTO sched_provider_changes (provider_id, created_at) "
        "VALUES ({}, UTC_TIMESTAMP(6));"
    )
    new, old = _build_provider_expressions(event, column)
    old_provider = f"IF {old} <> {new} THEN {insert.format(old)} END IF;" if old else ""
    return f"{insert.format(new)} {old_provider}"


def _build_postgresql_triggers() -> Iterator[_Trigger]:
    """Yield statement-level triggers, which log each provider at most once."""
    transition_tables = {
        "INSERT": "REFERENCING NEW TABLE AS new_rows",
        "UPDATE": "REFERENCING OLD TABLE AS old_rows NEW TABLE AS new_rows",
        "DELETE": "REFERENCING OLD TABLE AS old_rows",
        "TRUNCATE": "",
    }
    for table, column in _PROVIDERS.items():
        function = f"sched_log_by_{column}()"
        for action, event in {**_EVENTS, "truncated": "TRUNCATE"}.items():
            name = f"sched_{table}_{action}"
            yield _Trigger(
                table,
                name,
                f"CREATE TRIGGER {name} AFTER {event} ON {table} {transition_tables[event]} "
                f"FOR EACH STATEMENT EXECUTE FUNCTION {function}",
            )
    for table in _NAMES:
        name = f"sched_{table}_written"
        yield _Trigger(
            table,
            name,
            f"CREATE TRIGGER {name} AFTER INSERT OR UPDATE OR DELETE OR TRUNCATE ON {table} "
            "FOR EACH STATEMENT EXECUTE FUNCTION sched_log_names()",
        )


def _build_function_statements(connection: Connection) -> Iterator[str]:
    schema = connection.exec_driver_sql("SELECT quote_ident(current_schema())").scalar_one()
    insert = (
        f"INSERT INTO {schema}.sched_provider_changes (provider_id, created_at) "  # noqa: S608
        "SELECT provider, pg_catalog.timezone('UTC', pg_catalog.clock_timestamp()) "
        "FROM ({}) AS found (provider);"
    )
    head = "CREATE OR REPLACE FUNCTION {} RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS "
    for column in sorted(set(_PROVIDERS.values())):
        new, old = f"SELECT {column} FROM new_rows", f"SELECT {column} FROM old_rows"  # noqa: S608
        yield (
            head.format(f"sched_log_by_{column}()")
            + "$$ BEGIN "
            + f"IF TG_OP = 'INSERT' THEN {insert.format(f'{new} GROUP BY 1')} "
            + f"ELSIF TG_OP = 'UPDATE' THEN {insert.format(f'{new} UNION {old}')} "
            + f"ELSIF TG_OP = 'DELETE' THEN {insert.format(f'{old} GROUP BY 1')} "
            + f"ELSE {insert.format(f'VALUES ({EVERYTHING})')} END IF; RETURN NULL; END $$"
        )
    yield (
        head.format("sched_log_names()")
        + f"$$ BEGIN {insert.format(f'VALUES ({NAMES})')} RETURN NULL; END $$"
    )


def find_unsupported_reason(connection: Connection) -> str | None:
    """Return why the tables of the log cannot be kept reliably, or None."""
    if connection.dialect.name == "sqlite":
        return None
    if connection.dialect.name == "postgresql":
        standby = connection.exec_driver_sql("SELECT pg_is_in_recovery()").scalar_one()
        return "the server is a standby" if standby else None
    if connection.exec_driver_sql("SELECT @@global.read_only").scalar_one():
        return "the server is read-only: another server writes"
    cascading: Any = connection.execute(_CASCADING_KEYS, {"tables": LOGGED}).scalars().all()
    if cascading:
        return f"triggers do not see changes by the foreign keys {shorten_names(cascading)}"
    return None
