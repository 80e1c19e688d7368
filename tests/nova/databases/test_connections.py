# SPDX-License-Identifier: Apache-2.0
"""URLs of nova's databases: as they stand, or templates filled in from [database] connection."""

import pytest

from placement_sched.errors import ConfigurationError
from placement_sched.nova.databases.connections import (
    NovaDatabaseUnavailable,
    api_database,
    cell_database,
    fill_template,
)
from tests.conftest import make_settings
from tests.support.loopback import reserve_port

pytestmark = pytest.mark.all_databases

DEFAULT = "mysql+pymysql://nova:secret@db1:3307/nova?charset=utf8"


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
def test_a_template_is_completed_from_the_database_of_the_process(template, expected):
    assert fill_template(template, DEFAULT) == expected


def test_a_template_may_name_each_of_several_hosts():
    default = "rabbit://a:b@one:1,c:d@two:2/v"
    assert (
        fill_template("x://{username2}:{password2}@{hostname1}:{port2}/", default)
        == "x://c:d@one:2/"
    )


def test_a_url_without_a_template_needs_no_database_of_the_process():
    assert fill_template("mysql://u:p@h/cell1", None) == "mysql://u:p@h/cell1"


@pytest.mark.parametrize(("template", "default"), [("{scheme}://x", None), ("{nobody}", DEFAULT)])
def test_a_template_that_cannot_be_filled_in_is_an_error(template, default):
    with pytest.raises(ConfigurationError, match="template"):
        fill_template(template, default)


@pytest.mark.parametrize("url", ["", "oracle://u@h/x", "no url", "mysql://{port"])
def test_a_cell_without_a_usable_url_is_away_and_its_password_is_not_shown(sqlite_url, url):
    database = cell_database("cell one", url, make_settings(sqlite_url))
    with pytest.raises(NovaDatabaseUnavailable, match="database_connection"), database.read():
        pass


def test_an_api_database_must_be_named(sqlite_settings):
    with pytest.raises(ConfigurationError, match=r"\[api_database\] connection is not set"):
        api_database(sqlite_settings)


def test_an_api_database_of_another_kind_is_an_error(sqlite_url):
    settings = make_settings(sqlite_url, api_database__connection="oracle://u@h/x")
    with pytest.raises(ConfigurationError, match=r"\[api_database\] connection: 'oracle'"):
        api_database(settings)


@pytest.mark.parametrize("scheme", ["mysql", "mysql+mysqldb", "postgresql", "postgresql+psycopg2"])
def test_the_drivers_of_others_mean_ours(sqlite_url, scheme):
    url = f"{scheme}://u:p@h/nova_api"
    database = api_database(make_settings(sqlite_url, api_database__connection=url))
    assert database.url.drivername in {"mysql+pymysql", "postgresql+psycopg"}


def test_a_database_that_does_not_listen_is_away_at_once(sqlite_settings):
    with reserve_port() as holder:
        url = f"mysql://u:very-secret@127.0.0.1:{holder.getsockname()[1]}/nova"
        database = cell_database("cell one", url, sqlite_settings)
        with pytest.raises(NovaDatabaseUnavailable) as away, database.read():
            pass
    assert "very-secret" not in away.value.detail


def test_a_session_cannot_write(nova, sqlite_settings):
    database = cell_database("cell one", nova.cells["one"].url, sqlite_settings)
    with pytest.raises(NovaDatabaseUnavailable, match="readonly"), database.read() as connection:
        connection.exec_driver_sql("DELETE FROM services")
    database.close()


def test_a_file_that_does_not_exist_is_away_and_not_made(sqlite_settings, tmp_path):
    file = tmp_path / "mistyped.db"
    database = cell_database("cell one", f"sqlite:///{file}", sqlite_settings)
    with (
        pytest.raises(NovaDatabaseUnavailable, match=r"^there is no database .*mistyped\.db$"),
        database.read(),
    ):
        pass
    assert not file.exists()


def test_what_the_driver_says_has_no_error_number(database_url, sqlite_settings):
    database = cell_database("cell one", database_url, sqlite_settings)
    with pytest.raises(NovaDatabaseUnavailable) as away, database.read() as connection:
        connection.exec_driver_sql("SELECT 1 FROM no_such_table")
    assert "no_such_table" in away.value.detail
    assert not away.value.detail.startswith("(")
    database.close()
