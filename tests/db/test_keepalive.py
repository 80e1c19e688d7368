# SPDX-License-Identifier: Apache-2.0
"""A database whose machine does not respond is given up after seconds."""

import os
import socket

import pytest

from placement_sched.db.transaction import Database
from tests.conftest import make_settings

pytestmark = pytest.mark.all_databases


def _socket_options(connection):
    driver = connection.connection.driver_connection
    if connection.dialect.name == "mysql":
        return _options_of_socket(driver._sock)
    with socket.socket(fileno=os.dup(driver.fileno())) as sock:
        return _options_of_socket(sock)


def _options_of_socket(sock):
    names = ("TCP_KEEPIDLE", "TCP_KEEPINTVL", "TCP_KEEPCNT", "TCP_USER_TIMEOUT")
    alive = sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
    return [alive, *(sock.getsockopt(socket.IPPROTO_TCP, getattr(socket, name)) for name in names)]


@pytest.mark.parametrize("database_url", ["postgresql", "mysql"], indirect=True)
@pytest.mark.parametrize("kind", ["read", "write"])
def test_database_connections_use_tcp_keepalive(database_url, kind):
    database = Database(make_settings(database_url))
    if kind == "read":
        with database.read() as connection:
            options = _socket_options(connection)
    else:
        options = database.write(_socket_options)
    database.dispose()
    assert options == [1, 5, 2, 3, 10_000]
