# SPDX-License-Identifier: Apache-2.0
"""Databases with nothing in them at all, for tests of what makes a schema."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.exc import OperationalError

from tests.conftest import REQUIRED, SERVERS

#: The kinds, as parameters of a fixture.
KINDS = ("sqlite", "postgresql", "mysql")


@contextmanager
def empty_database(kind: str, folder: Path, options: str = "") -> Iterator[str]:
    """Give the URL of an empty database of this kind; drop it at the end.

    ``options`` are words of SQL about the database, on a server.

    A test is skipped where there is no server of that kind, unless CI requires one.
    """
    name = f"ps_empty_{uuid4().hex[:12]}"
    if kind == "sqlite":
        (folder / f"{name}.db").touch()
        yield f"sqlite:///{folder / f'{name}.db'}"
        return
    server = create_engine(SERVERS[kind], isolation_level="AUTOCOMMIT")
    try:
        with server.connect() as connection:
            connection.execute(text(f"CREATE DATABASE {name} {options}"))
    except OperationalError as failure:
        if REQUIRED:
            raise
        pytest.skip(f"no {kind} server: {failure.orig}")
    try:
        yield server.url.set(database=name).render_as_string(hide_password=False)
    finally:
        force = " WITH (FORCE)" if kind == "postgresql" else ""
        with server.connect() as connection:
            connection.execute(text(f"DROP DATABASE {name}{force}"))
        server.dispose()
