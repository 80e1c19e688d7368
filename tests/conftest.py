# SPDX-License-Identifier: Apache-2.0
"""Databases, settings and applications for all tests.

A test that uses ``settings``, ``database`` or ``app`` runs on SQLite, and on PostgreSQL and MariaDB
if it is marked ``all_databases`` or in the lane ``everywhere`` (``tests/lanes.py``). A test that
uses ``sqlite_settings``, ``sqlite_database`` or ``sqlite_app`` runs on SQLite alone. Each database
contains only the standard traits and resource classes at the beginning of a test.
"""

import os
import shutil
import threading
from collections.abc import Callable, Iterator
from functools import cache, lru_cache
from pathlib import Path
from uuid import uuid4

import pytest
from alembic.config import Config
from sqlalchemy import Engine, create_engine, delete, exists, literal, select, text, true, union_all
from sqlalchemy.exc import OperationalError
from sqlalchemy.pool import NullPool
from webtest import TestApp

from placement_sched.app import Application, create_app
from placement_sched.candidates.cache import CHECK_THREAD, ProviderCache
from placement_sched.config.conf import read_files
from placement_sched.config.settings import Settings
from placement_sched.db import migrate
from placement_sched.db.migrate import get_newest_revision
from placement_sched.db.tables import metadata, resource_classes, resource_providers, traits
from placement_sched.db.transaction import Database
from placement_sched.model.clock import utcnow
from placement_sched.operations.periodic import PeriodicTask
from placement_sched.operations.prepare import sync
from placement_sched.scheduler import caches
from placement_sched.scheduler.plugins import make_full_conf
from placement_sched.store.placement.resource_classes import FIRST_CUSTOM_ID
from tests.support.conformance import CheckedApplication
from tests.support.repository import ROOT

#: ``exploring`` sets the number of examples of property tests, ``lanes`` selects the tests of a
#: run, ``own_servers`` starts their databases, and ``results`` records results for a table.
pytest_plugins = (
    "tests.exploring",
    "tests.quick",
    "tests.lanes",
    "tests.own_servers",
    "tests.results",
)

DATABASE_SERVER_URLS = {
    "postgresql": os.environ.get(
        "PLACEMENT_SCHED_TEST_POSTGRESQL", "postgresql+psycopg://root@127.0.0.1/postgres"
    ),
    # No TLS: PyMySQL would read the machine's certificates at each connection (20 ms).
    "mysql": os.environ.get(
        "PLACEMENT_SCHED_TEST_MYSQL", "mysql+pymysql://root@127.0.0.1/?ssl_disabled=true"
    ),
}
#: Options of all settings that the arguments of pytest set.
COMMON_OPTIONS: dict[str, object] = {}
#: Set by CI: without a database server a test then fails and is not skipped.
ARE_DATABASES_REQUIRED = bool(os.environ.get("PLACEMENT_SCHED_REQUIRE_DATABASES"))
BROKER_URL = os.environ.get("PLACEMENT_SCHED_TEST_RABBITMQ", "amqp://guest:guest@127.0.0.1:5672/")
#: Set by CI: the same for RabbitMQ.
IS_BROKER_REQUIRED = bool(os.environ.get("PLACEMENT_SCHED_REQUIRE_BROKER"))


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add ``--url``, a running server for the gabbi tests, and ``--loader``."""
    parser.addoption("--url", help="the address of a server without resource providers")
    parser.addoption(
        "--loader",
        action="store_true",
        help="test without the provider cache: [placement] providers_in_memory = false",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Apply ``--loader``, and let a test of the fast lane fail if it uses a database server."""
    if config.getoption("--loader"):
        COMMON_OPTIONS["placement.providers_in_memory"] = False
    if config.getoption("--lane") == "fast":
        DATABASE_SERVER_URLS.update(
            dict.fromkeys(DATABASE_SERVER_URLS, "no_database_server_in_a_fast_test://")
        )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the tests of the provider cache if providers are loaded."""
    if not config.getoption("--loader"):
        return
    of_cache = [item for item in items if item.get_closest_marker("provider_cache")]
    config.hook.pytest_deselected(items=of_cache)
    items[:] = [item for item in items if item not in of_cache]


def make_settings(url: str, **options: object) -> Settings:
    """Return settings for the database ``url`` with overrides ``group__option``."""
    environment = tuple(sorted(item for item in os.environ.items() if item[0].startswith("OS_")))
    settings = default_settings(environment)
    values = {key.replace("__", "."): value for key, value in options.items()}
    return settings.with_overrides(
        {"placement_database.connection": url, **COMMON_OPTIONS, **values}
    )


@lru_cache(maxsize=4)
def default_settings(_environment: object) -> Settings:
    """Return the settings of tests without a configuration file, once per environment."""
    conf = read_files(make_full_conf())
    # A host stays up however slow the tests are.
    conf.set_override("service_down_time", 86400)
    # No test needs writes to survive a power failure.
    conf.set_override("sqlite_synchronous", False, "placement_database")
    return Settings.from_conf(conf)


@pytest.fixture
def own_conf() -> Iterator[None]:
    """Give a test its own oslo.config object, which other tests otherwise share."""
    default_settings.cache_clear()
    yield
    default_settings.cache_clear()


def create_server_database(kind: str) -> Iterator[str]:
    """Create a database on a server for this session, and drop it at the end."""
    name = f"ps_test_{uuid4().hex[:12]}"
    engine = create_engine(DATABASE_SERVER_URLS[kind], isolation_level="AUTOCOMMIT")
    try:
        with engine.connect() as connection:
            connection.execute(text(f"CREATE DATABASE {name}"))
    except OperationalError as failure:
        if ARE_DATABASES_REQUIRED:
            raise
        pytest.skip(f"no {kind} server: {failure.orig}")
    url = engine.url.set(database=name).render_as_string(hide_password=False)
    _create_schema(url)
    yield url
    _create_cached_engine(url).dispose()
    force = " WITH (FORCE)" if kind == "postgresql" else ""
    with engine.connect() as connection:
        connection.execute(text(f"DROP DATABASE {name}{force}"))
    engine.dispose()


def _create_schema(url: str) -> None:
    database = Database(make_settings(url))
    sync(database, utcnow)
    database.dispose()


@pytest.fixture(scope="session")
def postgresql_server() -> Iterator[str]:
    yield from create_server_database("postgresql")


@pytest.fixture(scope="session")
def mysql_server() -> Iterator[str]:
    yield from create_server_database("mysql")


@pytest.fixture(scope="session")
def sqlite_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("template") / "template.db"
    _create_schema(f"sqlite:///{path}")
    return path


@pytest.fixture
def add_revision(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], str]]:
    """Give a function that adds a schema revision without changes, and returns it."""
    scripts, configuration = tmp_path / "alembic", Config()
    shutil.copytree(ROOT / "alembic", scripts)
    configuration.set_main_option("script_location", str(scripts))
    monkeypatch.setattr(migrate, "_build_configuration", lambda: configuration)

    def add_empty_revision() -> str:
        newest = get_newest_revision()
        revision = f"{int(newest) + 1:04}"
        text = f"revision, down_revision = {revision!r}, {newest!r}\n\n\ndef upgrade():\n    pass\n"
        (scripts / "versions" / f"{revision}.py").write_text(text)
        get_newest_revision.cache_clear()
        return revision

    yield add_empty_revision
    get_newest_revision.cache_clear()


#: Rows that tests may leave in each table, children before parents.
TEST_ROW_CONDITIONS = {
    table: {
        traits: traits.c.name.startswith("CUSTOM"),
        resource_classes: resource_classes.c.id >= FIRST_CUSTOM_ID,
    }.get(table, true())
    for table in reversed(metadata.sorted_tables)
}
#: A statement that returns the tables with such rows. Most tests leave rows in few tables.
FILLED_TABLES_QUERY = union_all(
    *(
        select(literal(table.name)).where(exists().select_from(table).where(condition))
        for table, condition in TEST_ROW_CONDITIONS.items()
    )
)


@cache  # an engine also caches its compiled statements
def _create_cached_engine(url: str) -> Engine:
    # Only engines of servers are disposed of. A connection to a file is closed after each use.
    pool = NullPool if url.startswith("sqlite") else None
    return create_engine(url, pool_pre_ping=True, poolclass=pool)


def delete_test_rows(url: str) -> None:
    """Delete all rows except the standard traits and resource classes."""
    with _create_cached_engine(url).begin() as connection:
        filled = set(connection.scalars(FILLED_TABLES_QUERY))
        if resource_providers.name in filled:
            # Remove references between providers before the providers.
            connection.execute(
                resource_providers.update().values(root_provider_id=None, parent_provider_id=None)
            )
        for table, condition in TEST_ROW_CONDITIONS.items():
            if table.name in filled:
                connection.execute(delete(table).where(condition))


@pytest.fixture
def sqlite_url(sqlite_template: Path, tmp_path: Path) -> str:
    from tests.quick import NEW_DATABASE_URLS  # a plugin, which this module must not import before

    path = tmp_path / "placement_sched.db"
    shutil.copy(sqlite_template, path)
    url = f"sqlite:///{path}"
    NEW_DATABASE_URLS.add(url)
    return url


@pytest.fixture(params=["sqlite", "postgresql", "mysql"])
def database_url(request: pytest.FixtureRequest) -> str:
    """Return the URL of an empty database with the schema, of each kind."""
    if request.param == "sqlite":
        return str(request.getfixturevalue("sqlite_url"))
    url = str(request.getfixturevalue(f"{request.param}_server"))
    delete_test_rows(url)
    return url


@pytest.fixture
def settings(database_url: str) -> Settings:
    return make_settings(database_url)


@pytest.fixture
def database(settings: Settings) -> Iterator[Database]:
    database = Database(settings)
    yield database
    database.dispose()


class AdminClient(TestApp):
    """A WebTest client with the administrator's token."""

    def do_request(self, req, status=None, expect_errors=None):
        req.headers.setdefault("X-Auth-Token", "admin")
        return super().do_request(req, status, expect_errors)


@pytest.fixture
def make_app() -> Iterator[Callable[..., AdminClient]]:
    """Give a function that creates an application with these settings, and returns its client."""
    applications: list[Application] = []

    def create_client(settings: Settings, **parts: object) -> AdminClient:
        applications.append(create_app(settings, **parts))
        return AdminClient(CheckedApplication(applications[-1]))

    yield create_client
    for thread in threading.enumerate():
        if thread.name in {CHECK_THREAD, *list_task_threads(PeriodicTask)}:
            thread.join(timeout=60)
    for application in applications:
        application.close()


def list_task_threads(task: type[PeriodicTask]) -> Iterator[str]:
    """Yield thread names of a periodic task and of its subclasses."""
    yield task.thread_name
    for kind in task.__subclasses__():
        yield from list_task_threads(kind)


@pytest.fixture
def provider_cache_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a thread fill the provider cache, as in a server."""
    monkeypatch.setattr(caches, "ProviderCache", ProviderCache)


@pytest.fixture
def app(settings: Settings, make_app: Callable[..., AdminClient]) -> AdminClient:
    return make_app(settings)


@pytest.fixture
def app_without_cache(database_url: str, make_app: Callable[..., AdminClient]) -> AdminClient:
    """Return an application whose requests load the providers by SQL."""
    return make_app(make_settings(database_url, placement__providers_in_memory=False))


@pytest.fixture
def sqlite_settings(sqlite_url: str) -> Settings:
    return make_settings(sqlite_url)


@pytest.fixture
def sqlite_database(sqlite_settings: Settings) -> Iterator[Database]:
    database = Database(sqlite_settings)
    yield database
    database.dispose()


@pytest.fixture
def sqlite_app(sqlite_settings: Settings, make_app: Callable[..., AdminClient]) -> AdminClient:
    return make_app(sqlite_settings)


@pytest.fixture(scope="session")
def broker() -> str:
    """Return the transport URL of a RabbitMQ for oslo.messaging."""
    from kombu import Connection
    from kombu.exceptions import OperationalError

    try:
        with Connection(BROKER_URL, connect_timeout=30) as connection:
            connection.connect()
    except OperationalError as failure:
        if IS_BROKER_REQUIRED:
            raise
        pytest.skip(f"no RabbitMQ: {failure}")
    return BROKER_URL.replace("amqp://", "rabbit://")
