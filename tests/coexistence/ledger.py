# SPDX-License-Identifier: Apache-2.0
"""A ledger of the allocations that both services write, recorded by triggers.

Triggers insert a row for every change of an allocation and for every new generation of a provider.
Both services increase the generation in the transaction that changes the allocations, with the
provider's row locked. The generations therefore order the writes, and changes of allocations belong
to the next generation on the same connection. Transactions that roll back leave no rows.
"""

from dataclasses import dataclass

from sqlalchemy import Connection, text

from placement_sched.db.transaction import Database

_LEDGER_TABLE_SQL = """
CREATE TABLE ledger (
    id {serial} PRIMARY KEY, session INTEGER, service VARCHAR(20),
    provider_id INTEGER, generation INTEGER, amount INTEGER)
"""
_INSERT_SQL = "INSERT INTO ledger (session, service, provider_id, generation, amount) VALUES"
_POSTGRESQL_STATEMENTS = (
    _LEDGER_TABLE_SQL.format(serial="SERIAL"),
    f"""
    CREATE FUNCTION note_generation() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        {_INSERT_SQL} (pg_backend_pid(), current_setting('application_name'), NEW.id,
        NEW.generation, NULL); RETURN NULL; END $$
    """,
    f"""
    CREATE FUNCTION note_allocation() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        IF TG_OP <> 'INSERT' THEN
            {_INSERT_SQL} (pg_backend_pid(), NULL, OLD.resource_provider_id, NULL, -OLD.used);
        END IF;
        IF TG_OP <> 'DELETE' THEN
            {_INSERT_SQL} (pg_backend_pid(), NULL, NEW.resource_provider_id, NULL, NEW.used);
        END IF;
        RETURN NULL; END $$
    """,
    """
    CREATE TRIGGER note_generation AFTER UPDATE OF generation ON resource_providers
    FOR EACH ROW EXECUTE FUNCTION note_generation()
    """,
    """
    CREATE TRIGGER note_allocation AFTER INSERT OR UPDATE OR DELETE ON allocations
    FOR EACH ROW EXECUTE FUNCTION note_allocation()
    """,
)
_ADDED_SQL = f"{_INSERT_SQL} (CONNECTION_ID(), NULL, NEW.resource_provider_id, NULL, NEW.used);"
_REMOVED_SQL = f"{_INSERT_SQL} (CONNECTION_ID(), NULL, OLD.resource_provider_id, NULL, -OLD.used);"
_MYSQL_STATEMENTS = (
    _LEDGER_TABLE_SQL.format(serial="INTEGER AUTO_INCREMENT") + "ENGINE=InnoDB",
    f"""
    CREATE TRIGGER note_generation AFTER UPDATE ON resource_providers FOR EACH ROW
    IF NEW.generation <> OLD.generation THEN
        {_INSERT_SQL} (CONNECTION_ID(), @service, NEW.id, NEW.generation, NULL);
    END IF
    """,
    f"CREATE TRIGGER note_insert AFTER INSERT ON allocations FOR EACH ROW BEGIN {_ADDED_SQL} END",
    f"CREATE TRIGGER note_delete AFTER DELETE ON allocations FOR EACH ROW BEGIN {_REMOVED_SQL} END",
    f"""
    CREATE TRIGGER note_update AFTER UPDATE ON allocations FOR EACH ROW
    BEGIN {_REMOVED_SQL} {_ADDED_SQL} END
    """,
)


@dataclass(frozen=True)
class LedgerWrite:
    """A committed write: its service, and the provider's usage before and after it."""

    generation: int
    by_peer: bool
    before: int
    after: int


def create_ledger(database: Database) -> None:
    statements = (
        _MYSQL_STATEMENTS if database.url.get_backend_name() == "mysql" else _POSTGRESQL_STATEMENTS
    )

    def execute_statements(connection: Connection) -> None:
        for statement in statements:
            connection.exec_driver_sql(statement)

    database.write(execute_statements)


def read_writes_by_provider(database: Database) -> dict[int, list[LedgerWrite]]:
    with database.read() as connection:
        rows = connection.execute(text("SELECT * FROM ledger ORDER BY id")).all()
    pending: dict[tuple[int, int], int] = {}
    changes: dict[int, list[tuple[int, bool, int]]] = {}
    for row in rows:
        key = (row.session, row.provider_id)
        if row.generation is None:
            pending[key] = pending.get(key, 0) + row.amount
        else:
            changes.setdefault(row.provider_id, []).append(
                (row.generation, row.service == "peer", pending.pop(key, 0))
            )
    assert not any(pending.values()), "allocations were changed without a new generation"
    return {provider: _order_by_generation(rows) for provider, rows in changes.items()}


def _order_by_generation(changes: list[tuple[int, bool, int]]) -> list[LedgerWrite]:
    generations = [generation for generation, _by_peer, _change in changes]
    assert len(set(generations)) == len(generations), "two writes set the same generation"
    writes, used = [], 0
    for generation, by_peer, change in sorted(changes):
        writes.append(LedgerWrite(generation, by_peer, used, used + change))
        used += change
    return writes


def find_writes_over_capacity(writes: list[LedgerWrite], capacity: int) -> list[LedgerWrite]:
    return [write for write in writes if write.after > capacity and write.after > write.before]
