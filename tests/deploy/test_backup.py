# SPDX-License-Identifier: Apache-2.0
"""Backup during writes, and restore, with the commands of the guide."""

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.engine import URL, make_url

from placement_sched.db.transaction import Database
from placement_sched.model.clock import utcnow
from placement_sched.operations.prepare import check_schema_revision, sync
from placement_sched.store.placement import change_log
from tests.conftest import DATABASE_SERVER_URLS, make_settings
from tests.deploy import find_program
from tests.support.commands import run_captured
from tests.support.empty_databases import DATABASE_KINDS, empty_database
from tests.support.repository import ROOT
from tests.support.servers import build_environment, start_server

pytestmark = pytest.mark.system

UPGRADE_PAGE = (ROOT / "doc/source/upgrade.rst").read_text()
DATABASE_TITLES = {"postgresql": "PostgreSQL", "mysql": "MariaDB", "sqlite": "SQLite"}


def read_backup_commands(kind: str) -> list[str]:
    """Return the page's commands for a database: backup, then restore."""
    _, _, rest = UPGRADE_PAGE.partition(f"\n{DATABASE_TITLES[kind]}\n")
    block = re.search(r".. code-block:: console\n\n((?:   .*\n|\n)+)", rest)[1]
    lines = re.sub(r"\\\n\s+", "", block).splitlines()
    return [line.strip().removeprefix("$ ") for line in lines if line.strip().startswith("$ ")]


def run_documented_command(
    command: str, folder: Path, source: URL, target: URL, user: str | None
) -> None:
    """Run a command of the page as administrator, with these databases and this user."""
    command = re.sub(r"(--owner |TO )placement_sched\b", rf"\g<1>{user}", command)
    restored = target if "RESTORED" in command else source
    for name, url in (("RESTORED", target), ("placement_sched", source)):
        command = re.sub(rf"\b{name}\b(?!\.db)", str(url.database), command)
    command = command.replace("placement_sched.db", Path(str(source.database)).name)
    server = {
        "PGHOST": restored.host or "",
        "PGPORT": str(restored.port or ""),
        "PGUSER": restored.username or "",
        "PGPASSWORD": str(restored.password or ""),
        "MYSQL_PWD": str(restored.password or ""),
        "MYSQL_HOST": restored.host or "",
        "MYSQL_TCP_PORT": str(restored.port or 3306),
    }
    if restored.username:
        command = re.sub(
            r"\b(mariadb-dump|mariadb) ",
            rf"\1 --host={restored.host} --user={restored.username} ",
            command,
        )
    result = run_captured(
        ["bash", "-euo", "pipefail", "-c", command],
        cwd=folder,
        env=build_environment(**{key: value for key, value in server.items() if value}),
    )
    assert result.returncode == 0, f"{command}\n{result.stderr}"


@pytest.mark.all_databases
@pytest.mark.parametrize("kind", DATABASE_KINDS)
def test_backup_of_a_running_server_can_be_restored(kind, tmp_path):
    programs = {"postgresql": "pg_dump", "mysql": "mariadb-dump", "sqlite": "sqlite3"}
    find_program(programs[kind])
    restored = tmp_path / "restored"
    restored.mkdir()
    with (
        create_database_user(kind) as user,
        empty_database(kind, tmp_path) as source,
        empty_database(kind, restored) as target,
    ):
        _grant_all_privileges(kind, source, user)
        url_of_user = make_url(source).set(username=user).render_as_string(hide_password=False)
        _prepare_database(url_of_user)
        variables = build_environment(OS_PLACEMENT_DATABASE__CONNECTION=url_of_user)
        with start_server(folder=tmp_path, variables=variables) as server:
            path = "/placement/resource_providers"
            for number in range(5):
                server.post(path, {"name": f"before{number}", "uuid": str(uuid4())})
            stop_event = threading.Event()
            writer = threading.Thread(
                target=_create_providers_until_stopped, args=(server, path, stop_event)
            )
            writer.start()
            try:
                backup, *restore = read_backup_commands(kind)
                urls = (
                    make_url(_remove_driver_from_url(source)),
                    make_url(_remove_driver_from_url(target)),
                )
                run_documented_command(backup, tmp_path, *urls, user)
            finally:
                stop_event.set()
                writer.join(timeout=60)
        _drop_database(kind, target)
        for command in restore:
            run_documented_command(command, tmp_path, *urls, user)
        url_of_user = make_url(target).set(username=user).render_as_string(hide_password=False)
        names = _check_database_and_read_provider_names(url_of_user)
        variables = build_environment(OS_PLACEMENT_DATABASE__CONNECTION=url_of_user)
        with start_server(folder=restored, variables=variables) as server:
            assert server.get("/healthz/ready")[0] == 200
            status, _ = server.post(path, {"name": "after", "uuid": str(uuid4())})
            assert status == 201
    assert {f"before{number}" for number in range(5)} <= names


@contextmanager
def create_database_user(kind: str) -> Iterator[str | None]:
    """Create a user without a database, yield the name and drop the user."""
    if kind == "sqlite":
        yield None
        return
    user = f"ps_{uuid4().hex[:12]}"
    named = user if kind == "postgresql" else f"{user}@'%'"
    _run_as_administrator(kind, f"CREATE USER {named}")
    try:
        yield user
    finally:
        _run_as_administrator(kind, f"DROP USER {named}")


def _run_as_administrator(kind: str, *statements: str) -> None:
    server = create_engine(DATABASE_SERVER_URLS[kind], isolation_level="AUTOCOMMIT")
    with server.connect() as connection:
        for statement in statements:
            connection.execute(text(statement))
    server.dispose()


def _grant_all_privileges(kind: str, url: str, user: str | None) -> None:
    """Grant all privileges on a database to the user, as the page "Deploy" does."""
    name = make_url(url).database
    if kind == "postgresql":
        _run_as_administrator(kind, f"ALTER DATABASE {name} OWNER TO {user}")
    elif kind == "mysql":
        _run_as_administrator(kind, f"GRANT ALL ON {name}.* TO {user}@'%'")


def _drop_database(kind: str, url: str) -> None:
    """Drop a database, since a command of the page creates it."""
    name = make_url(url).database
    if kind == "sqlite":
        Path(str(name)).unlink()
    else:
        _run_as_administrator(kind, f"DROP DATABASE {name}")


def _prepare_database(url: str) -> None:
    database = Database(make_settings(url))
    sync(database, utcnow)
    database.dispose()


def _create_providers_until_stopped(server, path: str, stop_event: threading.Event) -> None:
    for number in range(100_000):
        if stop_event.is_set():
            return
        assert server.post(path, {"name": f"during{number}", "uuid": str(uuid4())})[0] == 201


def _remove_driver_from_url(url: str) -> str:
    return url.replace("+psycopg", "").replace("+pymysql", "") if "://" in url else url


def _check_database_and_read_provider_names(url: str) -> set[str]:
    """Check that this release can serve the database, and return the names of its providers."""
    database = Database(make_settings(url))
    try:
        check_schema_revision(database)
        with database.read() as connection:
            # Without the triggers the provider cache of a worker would not be current.
            assert change_log.find_defect(connection) is None
            names = connection.scalars(text("SELECT name FROM resource_providers"))
            return set(names)
    finally:
        database.dispose()


def test_backup_page_has_commands_for_each_database():
    for kind in DATABASE_KINDS:
        backup, *restore = read_backup_commands(kind)
        assert "backup" in backup
        assert any("backup" in line for line in restore), kind
