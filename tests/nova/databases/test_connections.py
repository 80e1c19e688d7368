# SPDX-License-Identifier: Apache-2.0
"""URLs of nova's databases, plain or as templates that [database] connection completes."""

from threading import Thread
from time import sleep

import pytest
from sqlalchemy import make_url, text

from placement_sched.errors import ConfigurationError
from placement_sched.nova import databases
from placement_sched.nova.databases import (
    NovaDatabase,
    NovaDatabaseUnavailable,
    fill_template,
    get_api_database,
    get_cell_database,
    make_reader,
)
from tests.conftest import make_settings
from tests.support.loopback import reserve_port

API_DATABASE_URL = "mysql+pymysql://nova:secret@db1:3307/nova?charset=utf8"


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ("mysql://u:p@h/cell1", "mysql://u:p@h/cell1"),
        (
            "{scheme}://{username}:{password}@{hostname}:{port}/cell1?{query}",
            "mysql+pymysql://nova:secret@db1:3307/cell1?charset=utf8",
        ),
        (
            "mysql://{username}:{password}@other/{path}_cell1",
            "mysql://nova:secret@other/nova_cell1",
        ),
    ],
)
def test_url_template_is_completed_from_the_api_database_url(template, expected):
    assert fill_template(template, API_DATABASE_URL) == expected


def test_url_template_can_contain_several_hosts():
    default = "rabbit://a:b@one:1,c:d@two:2/v"
    template = "x://{username2}:{password2}@{hostname1}:{port2}/"
    assert fill_template(template, default) == "x://c:d@one:2/"


def test_plain_cell_url_needs_no_api_database_url():
    assert fill_template("mysql://u:p@h/cell1", None) == "mysql://u:p@h/cell1"


@pytest.mark.parametrize(
    ("template", "default"), [("{scheme}://x", None), ("{nobody}", API_DATABASE_URL)]
)
def test_unknown_url_template_variable_is_an_error(template, default):
    with pytest.raises(ConfigurationError, match="template"):
        fill_template(template, default)


@pytest.mark.parametrize("url", ["", "oracle://u@h/x", "no url", "mysql://{port"])
def test_cell_with_an_unusable_url_is_unavailable_and_its_password_is_hidden(sqlite_url, url):
    database = get_cell_database("cell one", url, make_settings(sqlite_url))
    with pytest.raises(NovaDatabaseUnavailable, match="database_connection"), database.read():
        pass


def test_missing_api_database_url_is_an_error(sqlite_settings):
    with pytest.raises(ConfigurationError, match=r"\[api_database\] connection is not set"):
        get_api_database(sqlite_settings)


def test_unsupported_api_database_type_is_an_error(sqlite_url):
    settings = make_settings(sqlite_url, api_database__connection="oracle://u@h/x")
    with pytest.raises(ConfigurationError, match=r"\[api_database\] connection: 'oracle'"):
        get_api_database(settings)


@pytest.mark.parametrize("scheme", ["mysql", "mysql+mysqldb", "postgresql", "postgresql+psycopg2"])
def test_unsupported_database_drivers_are_replaced_by_supported_drivers(sqlite_url, scheme):
    url = f"{scheme}://u:p@h/nova_api"
    database = get_api_database(make_settings(sqlite_url, api_database__connection=url))
    assert database.url.drivername in {"mysql+pymysql", "postgresql+psycopg"}


def test_refused_connection_makes_the_database_unavailable_without_a_wait(sqlite_settings):
    with reserve_port() as holder:
        url = f"mysql://u:very-secret@127.0.0.1:{holder.getsockname()[1]}/nova"
        database = get_cell_database("cell one", url, sqlite_settings)
        with pytest.raises(NovaDatabaseUnavailable) as away, database.read():
            pass
    assert "very-secret" not in away.value.detail


def test_nova_database_session_is_read_only(nova, sqlite_settings):
    database = get_cell_database("cell one", nova.cells["one"].url, sqlite_settings)
    with pytest.raises(NovaDatabaseUnavailable, match="readonly"), database.read() as connection:
        connection.exec_driver_sql("DELETE FROM services")
    database.close()


def test_missing_sqlite_file_is_unavailable_and_not_created(sqlite_settings, tmp_path):
    file = tmp_path / "mistyped.db"
    database = get_cell_database("cell one", f"sqlite:///{file}", sqlite_settings)
    with (
        pytest.raises(NovaDatabaseUnavailable, match=r"^there is no database .*mistyped\.db$"),
        database.read(),
    ):
        pass
    assert not file.exists()


@pytest.mark.all_databases
def test_driver_error_message_has_no_error_number(database_url, sqlite_settings):
    database = get_cell_database("cell one", database_url, sqlite_settings)
    with pytest.raises(NovaDatabaseUnavailable) as away, database.read() as connection:
        connection.exec_driver_sql("SELECT 1 FROM no_such_table")
    assert "no_such_table" in away.value.detail
    assert not away.value.detail.startswith("(")
    database.close()


def test_threads_that_open_a_database_share_its_engine(tmp_path, monkeypatch):
    path = tmp_path / "nova.db"
    path.touch()
    nova = NovaDatabase("nova", make_url(f"sqlite:///{path}"))
    engines = []

    def make_slow_reader(url):
        sleep(0.05)
        engines.append(make_reader(url))
        return engines[-1]

    monkeypatch.setattr(databases, "make_reader", make_slow_reader)

    def read():
        with nova.read() as connection:
            connection.execute(text("SELECT 1"))

    threads = [Thread(target=read) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    nova.close()
    assert len(engines) == 1
