# SPDX-License-Identifier: Apache-2.0
"""A journal of writes in commit order, recorded by triggers of the database.

Triggers insert a row for every change of an allocation or total, and for every new generation of a
provider. A transaction that claims, shrinks or reshapes locks the provider until it ends, and
increases the generation last. Its changes of a provider are thus the rows of its session since the
previous generation. The deletion of a consumer's allocations takes no such lock and increases no
generation, and counts when its row is inserted. Transactions that roll back leave no rows.
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
#: Table, event, and the rows to insert: kind, provider and amount.
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


#: Statements that wait for every open transaction that has written to the journal.
_WAITS = {
    "sqlite": (),
    "postgresql": ("LOCK TABLE race_journal IN SHARE MODE",),
    "mysql": ("LOCK TABLES race_journal READ", "UNLOCK TABLES"),
}


@dataclass(frozen=True)
class Excess:
    """A write that increased the use of a provider above its total."""

    provider: int
    generation: int
    used: int
    total: int


@contextmanager
def journal_writes(database: Database) -> Iterator[None]:
    """Record all writes to the database in a new journal."""
    kind = database.url.get_backend_name()
    _execute_statements(database, _create_statements(kind))
    try:
        yield
    finally:
        _execute_statements(database, _drop_statements(kind))


def wait_for_writes(database: Database) -> None:
    """Wait until no transaction is open, including transactions of killed clients.

    A server may take a while to read the last packets of a killed client, such as a COMMIT, or to
    notice its end. SQLite has no server, so transactions end with their process.
    """

    def lock_journal(connection: Connection) -> None:
        for statement in _WAITS[database.url.get_backend_name()]:
            connection.exec_driver_sql(statement)

    database.write(lock_journal)


def replay_journal(database: Database, totals: dict[int, int]) -> tuple[Counter[int], list[Excess]]:
    """Return the final usage of each provider, and the writes that exceeded the total.

    ``totals`` maps ids of providers to their totals at the start.
    """
    with database.read() as connection:
        rows = connection.execute(text("SELECT * FROM race_journal ORDER BY id")).all()
    used: Counter[int] = Counter()
    increases: dict[int, Counter[int]] = {provider: Counter() for provider in totals}
    totals, excesses = dict(totals), []
    for row in rows:
        provider = row.provider_id
        if row.kind == "total":
            totals[provider] = row.amount
        elif row.kind == "used":
            used[provider] += row.amount
            increases[provider][row.session] += row.amount
        else:
            has_increased = increases[provider][row.session] > 0
            if has_increased and used[provider] > totals[provider]:
                excesses.append(Excess(provider, row.amount, used[provider], totals[provider]))
            increases[provider].clear()
    return used, excesses


def _execute_statements(database: Database, statements: list[str]) -> None:
    def execute_all(connection: Connection) -> None:
        for statement in statements:
            connection.exec_driver_sql(statement)

    database.write(execute_all)


def _create_statements(kind: str) -> list[str]:
    key, session = _KINDS[kind]
    columns = f"id {key}, session INTEGER, provider_id INTEGER, kind VARCHAR(5), amount INTEGER"
    statements = [f"CREATE TABLE race_journal ({columns})"]
    for table, event, notes in _NOTES:
        name = _trigger_name(table, event)
        body = " ".join(
            "INSERT INTO race_journal (session, provider_id, kind, amount) "
            f"VALUES ({session}, {provider}, '{kind_of_row}', {amount});"
            for kind_of_row, provider, amount in notes
        )
        if kind == "postgresql":
            statements.append(
                f"CREATE FUNCTION {name}() RETURNS trigger LANGUAGE plpgsql AS "
                f"$$ BEGIN {body} RETURN NULL; END $$"
            )
            body = f"EXECUTE FUNCTION {name}()"
        else:
            body = f"BEGIN {body} END"
        statements.append(f"CREATE TRIGGER {name} AFTER {event} ON {table} FOR EACH ROW {body}")
    return statements


def _drop_statements(kind: str) -> list[str]:
    names = [(table, _trigger_name(table, event)) for table, event, _notes in _NOTES]
    if kind == "postgresql":
        # CASCADE drops the trigger with its function.
        statements = [f"DROP FUNCTION {name}() CASCADE" for _table, name in names]
    else:
        statements = [f"DROP TRIGGER {name}" for _table, name in names]
    return [*statements, "DROP TABLE race_journal"]


def _trigger_name(table: str, event: str) -> str:
    return f"race_{table}_{event}".lower()
