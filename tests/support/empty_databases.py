# SPDX-License-Identifier: Apache-2.0
"""Databases without tables, for tests that create a schema."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.exc import OperationalError

from tests.conftest import ARE_DATABASES_REQUIRED, DATABASE_SERVER_URLS

#: Databases, as parameters of a fixture.
DATABASE_KINDS = ("sqlite", "postgresql", "mysql")


@contextmanager
def empty_database(kind: str, folder: Path, options: str = "") -> Iterator[str]:
    """Create an empty database, yield its URL and drop it.

    ``options`` are appended to ``CREATE DATABASE``. The test is skipped if there is no server of
    the kind, unless CI requires the server.
    """
    name = f"ps_empty_{uuid4().hex[:12]}"
    if kind == "sqlite":
        (folder / f"{name}.db").touch()
        yield f"sqlite:///{folder / f'{name}.db'}"
        return
    server = create_engine(DATABASE_SERVER_URLS[kind], isolation_level="AUTOCOMMIT")
    try:
        with server.connect() as connection:
            connection.execute(text(f"CREATE DATABASE {name} {options}"))
    except OperationalError as failure:
        if ARE_DATABASES_REQUIRED:
            raise
        pytest.skip(f"no {kind} server: {failure.orig}")
    try:
        yield server.url.set(database=name).render_as_string(hide_password=False)
    finally:
        force = " WITH (FORCE)" if kind == "postgresql" else ""
        with server.connect() as connection:
            connection.execute(text(f"DROP DATABASE {name}{force}"))
        server.dispose()
