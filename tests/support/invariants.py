# SPDX-License-Identifier: Apache-2.0
"""Checks of the invariants of a database, for tests that write to it."""

from collections.abc import Collection, Iterator
from contextlib import contextmanager

from sqlalchemy import Executable, create_engine

from placement_sched.db.transaction import Database
from placement_sched.store.checks import Invariant
from tests.verifier.growth import find_decreased_generations, read_generations
from tests.verifier.verify import verify

#: Statement that disables the foreign keys of a connection, by database.
_DISABLE_FOREIGN_KEYS_SQL = {
    "sqlite": "PRAGMA foreign_keys = OFF",
    "postgresql": "SET session_replication_role = replica",
    "mysql": "SET foreign_key_checks = 0",
}


def assert_invariants(database: Database, but: Collection[Invariant] = ()) -> None:
    """Fail with a sentence for each violation of an invariant that is not in ``but``."""
    violations = [row for row in verify(database).violations if row.invariant not in but]
    sentences = [f"{violation.invariant}: {violation.detail}" for violation in violations]
    assert sentences == [], "\n".join(sentences)


@contextmanager
def assert_generations_grow(database: Database) -> Iterator[None]:
    """Fail if the generation of a provider or consumer is lower at the end."""
    before = read_generations(database)
    yield
    fallen = find_decreased_generations(before, read_generations(database))
    assert [violation.detail for violation in fallen] == []


def execute_without_foreign_keys(database: Database, *statements: Executable) -> None:
    """Run statements with foreign keys disabled."""
    engine = create_engine(_render_url(database), isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.exec_driver_sql(_DISABLE_FOREIGN_KEYS_SQL[connection.dialect.name])
        for statement in statements:
            connection.execute(statement)
        connection.invalidate()
    engine.dispose()


def _render_url(database: Database) -> str:
    return database.url.render_as_string(hide_password=False)
