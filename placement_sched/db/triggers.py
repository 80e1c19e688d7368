"""The triggers that write the log of changes, on the tables that OpenStack placement writes, too.

Each writes to ``sched_provider_changes``, in the writer's own transaction, which providers a
statement was about. They run with the privileges of the user that made them: the other service's
user needs none on our tables.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, NamedTuple

import sqlalchemy as sa
from oslo_log import log
from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError

from placement_sched.model.names import in_short

LOG = log.getLogger(__name__)

#: What stands in a row of the log in place of a provider's id: a name of a trait, resource class or
#: aggregate was written; a table was emptied; a long transaction ended.
NAMES, EVERYTHING, LONG = 0, -1, -2

#: The columns that name the provider of a row.
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

_CASCADING = sa.text(
    "SELECT constraint_name FROM information_schema.referential_constraints "
    "WHERE constraint_schema = DATABASE() AND table_name IN :tables AND "
    "(update_rule NOT IN ('RESTRICT', 'NO ACTION') OR delete_rule NOT IN ('RESTRICT', 'NO ACTION'))"
).bindparams(sa.bindparam("tables", expanding=True))


#: The current time of the database, in UTC.
_NOW = {
    "postgresql": "timezone('UTC', clock_timestamp())",
    "sqlite": "strftime('%Y-%m-%d %H:%M:%f', 'now')",
    "mysql": "UTC_TIMESTAMP(6)",
}


class _Trigger(NamedTuple):
    table: str
    name: str
    statement: str


def note(connection: Connection, what: int) -> None:
    """Write :data:`EVERYTHING` or :data:`LONG` to the change log."""
    now = _NOW.get(connection.dialect.name, _NOW["mysql"])
    connection.exec_driver_sql(
        f"INSERT INTO sched_provider_changes (provider_id, created_at) VALUES ({what}, {now})"  # noqa: S608
    )


def missing_triggers(connection: Connection) -> frozenset[str]:
    """Return the names of the triggers that are not there, or that are disabled."""
    kind = connection.dialect.name
    found = connection.exec_driver_sql(_FOUND.get(kind, _FOUND["mysql"])).all()
    wanted = {(one.table, one.name) for one in _triggers(connection)}
    return frozenset(
        name for _, name in wanted - {(str(table), str(name)) for table, name in found}
    )


def has_triggers(connection: Connection) -> bool:
    """Return whether any of the triggers is there."""
    return len(missing_triggers(connection)) < len(list(_triggers(connection)))


def remove_triggers(connection: Connection) -> None:
    """Remove the triggers; readers of the log load all providers again, and find that out.

    If the database's user may not remove them, they stay, and a warning is logged.
    """
    missing = missing_triggers(connection)
    there = [one for one in _triggers(connection) if one.name not in missing]

    def drop() -> None:
        for one in there:
            _drop(connection, one)

    if refused := _refusal_of(connection, drop):
        LOG.warning(
            "the triggers that log changes for [placement] providers_in_memory stay, since the "
            "database's user may not remove them: %s",
            refused,
        )
    else:
        note(connection, EVERYTHING)


def _refusal_of(connection: Connection, work: Callable[[], None]) -> BaseException | None:
    """Do ``work``; return what the database says where its user may not.

    Then it is undone on PostgreSQL; MariaDB commits each statement about triggers. Whatever else
    the database says is raised.
    """
    try:
        if connection.dialect.name == "postgresql":
            with connection.begin_nested():
                work()
        else:
            work()
    except DBAPIError as failure:
        if not _is_refused(failure):
            raise
        return failure.orig
    return None


def _drop(connection: Connection, trigger: _Trigger) -> None:
    of_table = f" ON {trigger.table}" if connection.dialect.name == "postgresql" else ""
    connection.exec_driver_sql(f"DROP TRIGGER IF EXISTS {trigger.name}{of_table}")


_FOUND: Mapping[str, str] = {
    "sqlite": "SELECT tbl_name, name FROM sqlite_master WHERE type = 'trigger'",
    "postgresql": (
        "SELECT c.relname, t.tgname FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid "
        "WHERE c.relnamespace = current_schema()::regnamespace AND t.tgenabled IN ('O', 'A') "
        "AND NOT t.tgisinternal"
    ),
    # MySQL and MariaDB show those of tables for which the user has the privilege TRIGGER.
    "mysql": (
        "SELECT event_object_table, trigger_name FROM information_schema.triggers "
        "WHERE trigger_schema = DATABASE()"
    ),
}


def make_triggers(connection: Connection) -> None:
    """Make the triggers that are not there.

    Where the database's user may not make them, those that were made are removed, since a log that
    is kept in part is of no use, and a warning is logged. Whatever else the database says is
    raised.
    """
    if not (lacking := missing_triggers(connection)):
        return
    refused = _refusal_of(connection, partial(_make, connection, lacking))
    if refused is None:
        # The log lacks what was written while triggers were missing.
        note(connection, EVERYTHING)
        return
    if connection.dialect.name != "postgresql":
        made = lacking - missing_triggers(connection)
        for one in _triggers(connection):
            if one.name in made:
                _drop(connection, one)
    LOG.warning(
        "[placement] providers_in_memory has no effect: the database's user may not make the "
        "triggers that log changes: %s. %s and run placement-sched db sync again, or set the "
        "option to false",
        refused,
        _REMEDIES.get(connection.dialect.name, _ON_MARIADB),
    )


def _make(connection: Connection, lacking: frozenset[str]) -> None:
    if connection.dialect.name == "postgresql":
        for statement in _functions(connection):
            connection.exec_driver_sql(statement)
    for one in _triggers(connection):
        if one.name in lacking:
            if connection.dialect.name == "postgresql":  # where it was disabled
                _drop(connection, one)
            connection.exec_driver_sql(one.statement)
            if connection.dialect.name == "postgresql":
                # Also in sessions that apply what another server wrote.
                connection.exec_driver_sql(
                    f"ALTER TABLE {one.table} ENABLE ALWAYS TRIGGER {one.name}"
                )


#: What lets a user make triggers.
_REMEDIES: Mapping[str, str] = {
    "postgresql": "Let it own the tables, and CREATE functions in their schema,"
}
_ON_MARIADB = (
    "Grant it TRIGGER, set log_bin_trust_function_creators = ON where there is a binary log,"
)
# insufficient_privilege; TRIGGER, SUPER, and SUPER where there is a binary log.
_REFUSED = {"42501", 1142, 1227, 1419, 1044}


def _is_refused(failure: DBAPIError) -> bool:
    original = failure.orig
    codes = {getattr(original, "sqlstate", None), next(iter(getattr(original, "args", ())), None)}
    return not _REFUSED.isdisjoint(codes)


def _triggers(connection: Connection) -> Iterator[_Trigger]:
    kind = connection.dialect.name
    if kind == "postgresql":
        return _on_postgresql()
    return _by_row(_sqlite_body if kind == "sqlite" else _mariadb_body)


def _by_row(body: Callable[[str, str | None], str]) -> Iterator[_Trigger]:
    """Yield three triggers a table, each for one row."""
    for table, column in {**_PROVIDERS, **dict.fromkeys(_NAMES)}.items():
        for done, event in _EVENTS.items():
            name = f"sched_{table}_{done}"
            yield _Trigger(
                table,
                name,
                f"CREATE TRIGGER {name} AFTER {event} ON {table} FOR EACH ROW "
                f"BEGIN {body(event, column)} END",
            )


def _written(event: str, column: str | None) -> tuple[str, str | None]:
    """Return the provider of a row, and the one that an update took it from."""
    if column is None:
        return str(NAMES), None
    return {
        "INSERT": (f"NEW.{column}", None),
        "UPDATE": (f"NEW.{column}", f"OLD.{column}"),
        "DELETE": (f"OLD.{column}", None),
    }[event]


def _sqlite_body(event: str, column: str | None) -> str:
    # What is replaced (INSERT OR REPLACE) is reported by the row that replaces it: with the same
    # provider, unless a row's id was given with it, which neither service does.
    insert = (
        "INSERT INTO sched_provider_changes (provider_id, created_at) "
        "SELECT {}, strftime('%Y-%m-%d %H:%M:%f', 'now')"
    )
    new, old = _written(event, column)
    moved = f"{insert.format(old)} WHERE {old} <> {new};" if old else ""
    return f"{insert.format(new)}; {moved}"


def _mariadb_body(event: str, column: str | None) -> str:
    insert = (
        "INSERT INTO sched_provider_changes (provider_id, created_at) "
        "VALUES ({}, UTC_TIMESTAMP(6));"
    )
    new, old = _written(event, column)
    moved = f"IF {old} <> {new} THEN {insert.format(old)} END IF;" if old else ""
    return f"{insert.format(new)} {moved}"


def _on_postgresql() -> Iterator[_Trigger]:
    """Yield the triggers of a statement: at most one row of the log for each provider."""
    seen = {
        "INSERT": "REFERENCING NEW TABLE AS new_rows",
        "UPDATE": "REFERENCING OLD TABLE AS old_rows NEW TABLE AS new_rows",
        "DELETE": "REFERENCING OLD TABLE AS old_rows",
        "TRUNCATE": "",
    }
    for table, column in _PROVIDERS.items():
        function = f"sched_log_by_{column}()"
        for done, event in {**_EVENTS, "truncated": "TRUNCATE"}.items():
            name = f"sched_{table}_{done}"
            yield _Trigger(
                table,
                name,
                f"CREATE TRIGGER {name} AFTER {event} ON {table} {seen[event]} "
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


def _functions(connection: Connection) -> Iterator[str]:
    """Yield what makes the functions of PostgreSQL's triggers.

    They run as their owner, so every name in them says its schema.
    """
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


def why_unsupported(connection: Connection) -> str | None:
    """Return why no log could be relied upon here, whatever triggers there are; None where one can.

    The tables of the log must be there.
    """
    if connection.dialect.name == "postgresql":
        standby = connection.exec_driver_sql("SELECT pg_is_in_recovery()").scalar_one()
        return "the server is a standby" if standby else None
    return None if connection.dialect.name == "sqlite" else _why_not_on_mariadb(connection)


def _why_not_on_mariadb(connection: Connection) -> str | None:
    if connection.exec_driver_sql("SELECT @@global.read_only").scalar_one():
        return "the server is read-only: another one writes"
    cascading: Any = connection.execute(_CASCADING, {"tables": LOGGED}).scalars().all()
    if cascading:
        return f"triggers do not see what the foreign keys {in_short(cascading)} change"
    return None
