# SPDX-License-Identifier: Apache-2.0
"""What must always hold of a database, for tests of anything that writes there."""

from collections.abc import Collection, Iterator
from contextlib import contextmanager

from sqlalchemy import Executable, create_engine

from placement_sched.db.transaction import Database
from placement_sched.model.checks import Invariant, Verified
from tests.conftest import make_settings
from tests.verifier.growth import fallen_generations, read_generations
from tests.verifier.verify import verify

#: How each database is kept from refusing a row that refers to nothing.
_UNCHECKED = {
    "sqlite": "PRAGMA foreign_keys = OFF",
    "postgresql": "SET session_replication_role = replica",
    "mysql": "SET foreign_key_checks = 0",
}


def run_verifier(database: Database, **options: object) -> Verified:
    """Return what is violated under ``group__option`` values."""
    return verify(database, make_settings(_url(database), **options))


def assert_invariants(database: Database, but: Collection[Invariant] = ()) -> None:
    """Fail with a sentence for each violation, but those of invariants that are no matter here."""
    found = [one for one in run_verifier(database).violations if one.invariant not in but]
    told = [f"{one.invariant}: {one.detail}" for one in found]
    assert told == [], "\n".join(told)


@contextmanager
def assert_generations_grow(database: Database) -> Iterator[None]:
    """Fail where the generation of a provider or consumer is lower in the end."""
    before = read_generations(database)
    yield
    assert [one.detail for one in fallen_generations(before, read_generations(database))] == []


def break_tables(database: Database, *statements: Executable) -> None:
    """Run statements with foreign keys unchecked, as no release of this service does."""
    engine = create_engine(_url(database), isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.exec_driver_sql(_UNCHECKED[connection.dialect.name])
        for statement in statements:
            connection.execute(statement)
        connection.invalidate()
    engine.dispose()


def _url(database: Database) -> str:
    return database.url.render_as_string(hide_password=False)
