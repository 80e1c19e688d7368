# SPDX-License-Identifier: Apache-2.0
"""The order in which writes took effect, as the database itself notes it down.

Triggers write a row for every change of an allocation or a total, and for every raise of a
provider's generation. A transaction that claims, shrinks or reshapes holds the provider's lock
until it ends, and raises the generation last: what it did is what its session noted of the provider
since the raise before. Deleting a consumer's allocations takes no such lock and raises nothing; it
is counted when it is noted, which is before it is done. What is rolled back leaves no rows.
"""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from sqlalchemy import Connection, text

from placement_sched.db.transaction import Database

_KINDS = {
    "sqlite": ("INTEGER PRIMARY KEY AUTOINCREMENT", "0"),
    "postgresql": ("SERIAL PRIMARY KEY", "pg_backend_pid()"),
    "mysql": ("INTEGER AUTO_INCREMENT PRIMARY KEY", "CONNECTION_ID()"),
}
#: Table, event, and the notes to be made: what of which provider, and how much.
_NOTES = (
    ("allocations", "INSERT", [("used", "NEW.resource_provider_id", "NEW.used")]),
    ("allocations", "DELETE", [("used", "OLD.resource_provider_id", "-OLD.used")]),
    (
        *("allocations", "UPDATE"),
        [
            ("used", "OLD.resource_provider_id", "-OLD.used"),
            ("used", "NEW.resource_provider_id", "NEW.used"),
        ],
    ),
    ("inventories", "INSERT", [("total", "NEW.resource_provider_id", "NEW.total")]),
    ("inventories", "UPDATE", [("total", "NEW.resource_provider_id", "NEW.total")]),
    ("resource_providers", "UPDATE", [("raise", "NEW.id", "NEW.generation")]),
)


#: Waits for every transaction that has written to the journal and is not over.
_WAITS = {
    "sqlite": (),
    "postgresql": ("LOCK TABLE race_journal IN SHARE MODE",),
    "mysql": ("LOCK TABLES race_journal READ", "UNLOCK TABLES"),
}


@dataclass(frozen=True)
class Excess:
    """A write that used more of a provider than before, and more than there is."""

    provider: int
    generation: int
    used: int
    total: int


@contextmanager
def journal_writes(database: Database) -> Iterator[None]:
    """Let the database note down every write meanwhile; the notes of before are gone."""
    kind = database.url.get_backend_name()
    _execute_statements(database, _create_statements(kind))
    try:
        yield
    finally:
        _execute_statements(database, _drop_statements(kind))


def wait_for_writes(database: Database) -> None:
    """Wait until each write that a client has begun is done or undone, also one that was killed.

    A server may take a while to read the last that a killed client sent, which may be a COMMIT, or
    to see that nothing more comes. SQLite has no server: what a process did ends with it.
    """

    def write_rows(connection: Connection) -> None:
        for statement in _WAITS[database.url.get_backend_name()]:
            connection.exec_driver_sql(statement)

    database.write(write_rows)


def replay_journal(database: Database, totals: dict[int, int]) -> tuple[Counter[int], list[Excess]]:
    """Return what is used of each provider in the end, and the writes that used too much.

    ``totals`` are those of the start, by the providers' numbers.
    """
    with database.read() as connection:
        rows = connection.execute(text("SELECT * FROM race_journal ORDER BY id")).all()
    used: Counter[int] = Counter()
    rose: dict[int, Counter[int]] = {provider: Counter() for provider in totals}
    now, excesses = dict(totals), []
    for row in rows:
        provider = row.provider_id
        if row.kind == "total":
            now[provider] = row.amount
        elif row.kind == "used":
            used[provider] += row.amount
            rose[provider][row.session] += row.amount
        else:
            if rose[provider][row.session] > 0 and used[provider] > now[provider]:
                excesses.append(Excess(provider, row.amount, used[provider], now[provider]))
            rose[provider].clear()
    return used, excesses


def _execute_statements(database: Database, statements: list[str]) -> None:
    def write_rows(connection: Connection) -> None:
        for statement in statements:
            connection.exec_driver_sql(statement)

    database.write(write_rows)


def _create_statements(kind: str) -> list[str]:
    key, session = _KINDS[kind]
    columns = f"id {key}, session INTEGER, provider_id INTEGER, kind VARCHAR(5), amount INTEGER"
    made = [f"CREATE TABLE race_journal ({columns})"]
    for table, event, notes in _NOTES:
        name = _trigger_name(table, event)
        body = " ".join(
            "INSERT INTO race_journal (session, provider_id, kind, amount) "
            f"VALUES ({session}, {provider}, '{what}', {amount});"
            for what, provider, amount in notes
        )
        if kind == "postgresql":
            made.append(
                f"CREATE FUNCTION {name}() RETURNS trigger LANGUAGE plpgsql AS "
                f"$$ BEGIN {body} RETURN NULL; END $$"
            )
            body = f"EXECUTE FUNCTION {name}()"
        else:
            body = f"BEGIN {body} END"
        made.append(f"CREATE TRIGGER {name} AFTER {event} ON {table} FOR EACH ROW {body}")
    return made


def _drop_statements(kind: str) -> list[str]:
    names = [(table, _trigger_name(table, event)) for table, event, _notes in _NOTES]
    if kind == "postgresql":
        # A trigger goes with its function.
        gone = [f"DROP FUNCTION {name}() CASCADE" for _table, name in names]
    else:
        gone = [f"DROP TRIGGER {name}" for _table, name in names]
    return [*gone, "DROP TABLE race_journal"]


def _trigger_name(table: str, event: str) -> str:
    return f"race_{table}_{event}".lower()
