# SPDX-License-Identifier: Apache-2.0
"""Who wrote which allocations in which order, as the database itself notes it down.

Triggers write a row for every change of an allocation and for every raise of a provider's
generation. Both services raise it, under the lock of the provider's row, in the transaction that
changes what is allocated: so the generations are the order of the writes, and what was written
belongs to the next raise on the same connection. What is rolled back leaves no rows.
"""

from dataclasses import dataclass

from sqlalchemy import Connection, text

from placement_sched.db.transaction import Database

_TABLE = """
CREATE TABLE ledger (
    id {serial} PRIMARY KEY, session INTEGER, service VARCHAR(20),
    provider_id INTEGER, generation INTEGER, amount INTEGER)
"""
_INSERT = "INSERT INTO ledger (session, service, provider_id, generation, amount) VALUES"
_POSTGRESQL = (
    _TABLE.format(serial="SERIAL"),
    f"""
    CREATE FUNCTION note_generation() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        {_INSERT} (pg_backend_pid(), current_setting('application_name'), NEW.id, NEW.generation,
        NULL); RETURN NULL; END $$
    """,
    f"""
    CREATE FUNCTION note_allocation() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        IF TG_OP <> 'INSERT' THEN
            {_INSERT} (pg_backend_pid(), NULL, OLD.resource_provider_id, NULL, -OLD.used);
        END IF;
        IF TG_OP <> 'DELETE' THEN
            {_INSERT} (pg_backend_pid(), NULL, NEW.resource_provider_id, NULL, NEW.used);
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
_ADDED = f"{_INSERT} (CONNECTION_ID(), NULL, NEW.resource_provider_id, NULL, NEW.used);"
_TAKEN = f"{_INSERT} (CONNECTION_ID(), NULL, OLD.resource_provider_id, NULL, -OLD.used);"
_MYSQL = (
    _TABLE.format(serial="INTEGER AUTO_INCREMENT") + "ENGINE=InnoDB",
    f"""
    CREATE TRIGGER note_generation AFTER UPDATE ON resource_providers FOR EACH ROW
    IF NEW.generation <> OLD.generation THEN
        {_INSERT} (CONNECTION_ID(), @service, NEW.id, NEW.generation, NULL);
    END IF
    """,
    f"CREATE TRIGGER note_insert AFTER INSERT ON allocations FOR EACH ROW BEGIN {_ADDED} END",
    f"CREATE TRIGGER note_delete AFTER DELETE ON allocations FOR EACH ROW BEGIN {_TAKEN} END",
    f"""
    CREATE TRIGGER note_update AFTER UPDATE ON allocations FOR EACH ROW
    BEGIN {_TAKEN} {_ADDED} END
    """,
)


@dataclass(frozen=True)
class LedgerWrite:
    """A committed write: which service made it, and what it left allocated on the provider."""

    generation: int
    by_peer: bool
    before: int
    after: int


def create_ledger(database: Database) -> None:
    statements = _MYSQL if database.url.get_backend_name() == "mysql" else _POSTGRESQL

    def write_rows(connection: Connection) -> None:
        for statement in statements:
            connection.exec_driver_sql(statement)

    database.write(write_rows)


def writes_by_provider(database: Database) -> dict[int, list[LedgerWrite]]:
    with database.read() as connection:
        rows = connection.execute(text("SELECT * FROM ledger ORDER BY id")).all()
    pending: dict[tuple[int, int], int] = {}
    raises: dict[int, list[tuple[int, bool, int]]] = {}
    for row in rows:
        key = (row.session, row.provider_id)
        if row.generation is None:
            pending[key] = pending.get(key, 0) + row.amount
        else:
            raises.setdefault(row.provider_id, []).append(
                (row.generation, row.service == "peer", pending.pop(key, 0))
            )
    assert not any(pending.values()), "allocations were changed and no generation raised"
    return {provider: _chain_by_generation(made) for provider, made in raises.items()}


def _chain_by_generation(raises: list[tuple[int, bool, int]]) -> list[LedgerWrite]:
    generations = [generation for generation, _by_peer, _change in raises]
    assert len(set(generations)) == len(generations), "two writes raised one generation"
    told, held = [], 0
    for generation, by_peer, change in sorted(raises):
        told.append(LedgerWrite(generation, by_peer, held, held + change))
        held += change
    return told


def writes_over_capacity(made: list[LedgerWrite], capacity: int) -> list[LedgerWrite]:
    return [one for one in made if one.after > capacity and one.after > one.before]
