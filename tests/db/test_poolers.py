# SPDX-License-Identifier: Apache-2.0
"""PgBouncer with transaction pooling: each transaction may have another session.

Responses equal the responses through direct connections, whatever other clients did in the same
sessions.
"""

import os
import random
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from subprocess import STDOUT, Popen
from tempfile import TemporaryDirectory
from uuid import uuid4

import psycopg
import pytest
import requests
from sqlalchemy import create_engine, literal_column, select, text

from placement_sched.db.sql import FrequentStatement
from placement_sched.db.transaction import Database
from placement_sched.model.clock import utcnow
from placement_sched.nova.databases import NovaDatabase, parse_url
from placement_sched.nova.databases.placements import list_mapped_cells
from placement_sched.nova.databases.tables import API
from placement_sched.operations.prepare import sync
from tests.conftest import make_settings
from tests.deploy import find_program
from tests.support.loopback import reserve_port
from tests.support.postgresql import ACCOUNT, run_postgresql
from tests.support.servers import build_environment, start_server, wait_until
from tests.support.versions import LATEST_HEADERS
from tests.verifier.verify import assert_invariants

pytestmark = [pytest.mark.system, pytest.mark.timeout(600)]

READ_COUNT, CLAIM_COUNT, NOVA_READ_COUNT = 2_000, 400, 400
CLIENT_COUNT = 8
HOST_COUNT = 5
REQUEST_HEADERS = {"X-Auth-Token": "admin", **LATEST_HEADERS}
#: Few sessions for many clients, so that clients share them.
PGBOUNCER_CONFIGURATION = """
[databases]
* = host=127.0.0.1 port={server}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = trust
auth_file = {users}
pool_mode = transaction
max_client_conn = 200
default_pool_size = 4
ignore_startup_parameters = options
"""


@contextmanager
def run_pgbouncer(folder: Path, server: int) -> Iterator[int]:
    """Run PgBouncer in front of the PostgreSQL on port ``server``, and yield its port."""
    program = find_program("pgbouncer")
    with reserve_port() as reserved, (folder / "pgbouncer.log").open("w") as log:
        port = reserved.getsockname()[1]
        users = folder / "users.txt"
        users.write_text(f'"{ACCOUNT}" ""\n')
        file = folder / "pgbouncer.ini"
        file.write_text(PGBOUNCER_CONFIGURATION.format(server=server, port=port, users=users))
        command = [program, str(file)]
        if os.geteuid() == 0:  # PgBouncer refuses to run as root
            account = (f"--reuid={ACCOUNT}", f"--regid={ACCOUNT}", "--init-groups")
            command = ["setpriv", *account, *command]
            folder.chmod(0o755)
        process = Popen(command, stdout=log, stderr=STDOUT)
        try:
            assert wait_until(lambda: is_port_accepting_connections(port), 30), (
                folder / "pgbouncer.log"
            ).read_text()
            yield port
        finally:
            process.terminate()
            process.wait(timeout=60)


def is_port_accepting_connections(port: int) -> bool:
    with suppress(psycopg.OperationalError):
        psycopg.connect(f"host=127.0.0.1 port={port} user={ACCOUNT} dbname=postgres").close()
        return True
    return False


@pytest.fixture(scope="module")
def postgresql_behind_pgbouncer():
    with run_postgresql() as postgresql_behind_pgbouncer:
        for name in ("placement", "nova_api"):
            postgresql_behind_pgbouncer.query(f"CREATE DATABASE {name}")
        yield postgresql_behind_pgbouncer


@pytest.fixture
def make_pgbouncer_url(postgresql_behind_pgbouncer):
    """Give a function that returns the pooled_url URL of a database."""
    with (
        TemporaryDirectory(prefix="placement_sched_pgbouncer_") as folder,
        run_pgbouncer(Path(folder), postgresql_behind_pgbouncer.port) as port,
    ):
        yield lambda name: postgresql_behind_pgbouncer.url(name).replace(
            f":{postgresql_behind_pgbouncer.port}/", f":{port}/"
        )


def call_concurrently(number, work):
    """Call ``work`` concurrently with each number below ``number``, and return the results."""
    with ThreadPoolExecutor(CLIENT_COUNT) as clients:
        return list(clients.map(work, range(number)))


def build_body_with_generation(number, **body):
    return {"resource_provider_generation": number, **body}


def test_two_workers_behind_pgbouncer_answer_like_direct_connections(
    postgresql_behind_pgbouncer, make_pgbouncer_url, tmp_path
):
    direct = Database(make_settings(postgresql_behind_pgbouncer.url("placement")))
    sync(direct, utcnow)
    sessions = [requests.Session() for _ in range(CLIENT_COUNT)]
    options = {
        "OS_API__AUTH_STRATEGY": "noauth2",
        "OS_PLACEMENT_DATABASE__CONNECTION": make_pgbouncer_url("placement"),
    }
    with start_server(
        "--workers", "2", folder=tmp_path, variables=build_environment(**options)
    ) as service:
        base = f"{service.url}/placement"

        def send_request(method, path, number=0, **more):
            session = sessions[number % CLIENT_COUNT]
            return session.request(method, base + path, headers=REQUEST_HEADERS, timeout=60, **more)

        uuids = [str(uuid4()) for _ in range(HOST_COUNT)]
        for number, uuid in enumerate(uuids):
            path = f"/resource_providers/{uuid}"
            stock = {"VCPU": {"total": 64 + number}, "MEMORY_MB": {"total": 4096 * number + 1}}
            trait = f"CUSTOM_T{number}"
            for method, place, body in (
                ("POST", "/resource_providers", {"name": f"cn{number}", "uuid": uuid}),
                ("PUT", f"/traits/{trait}", None),
                ("PUT", f"{path}/inventories", build_body_with_generation(0, inventories=stock)),
                ("PUT", f"{path}/traits", build_body_with_generation(1, traits=[trait])),
            ):
                assert send_request(method, place, json=body).ok
        paths = [
            f"/resource_providers{path}"
            for uuid in uuids
            for path in (
                f"/{uuid}",
                f"/{uuid}/inventories",
                f"/{uuid}/traits",
                f"/{uuid}/usages",
                f"/{uuid}/aggregates",
                f"?in_tree={uuid}",
                "?name=cn3&resources=VCPU:1",
            )
        ] + [
            "/allocation_candidates?resources=VCPU:1,MEMORY_MB:64",
            "/allocation_candidates?resources=VCPU:1&required=CUSTOM_T3",
            "/traits",
            "/usages?project_id=p",
        ]
        expected = {path: send_request("GET", path).json() for path in paths}
        statuses: Counter[int] = Counter()
        differences = []

        def send_random_read(number):
            path = random.Random(number).choice(paths)
            response = send_request("GET", path, number)
            statuses[response.status_code] += 1
            if response.json() != expected[path]:
                differences.append((path, response.text))

        call_concurrently(READ_COUNT, send_random_read)
        assert statuses == {200: READ_COUNT}
        assert not differences[:3]

        def send_claim(number):
            body = {
                "allocations": {uuids[number % HOST_COUNT]: {"resources": {"VCPU": 1}}},
                "project_id": "p",
                "user_id": "u",
                "consumer_generation": None,
                "consumer_type": "INSTANCE",
            }
            return send_request("PUT", f"/allocations/{uuid4()}", number, json=body).status_code

        statuses = Counter(call_concurrently(CLAIM_COUNT, send_claim))
        capacity = sum(64 + number for number in range(HOST_COUNT))
        assert statuses == {204: capacity, 409: CLAIM_COUNT - capacity}
        for number, uuid in enumerate(uuids):
            usages = send_request("GET", f"/resource_providers/{uuid}/usages").json()["usages"]
            assert usages["VCPU"] == 64 + number
    assert_invariants(direct)
    direct.dispose()


@pytest.mark.parametrize("is_pooled", [False, True], ids=["direct", "through pgbouncer"])
def test_statements_are_prepared_only_without_pgbouncer(
    postgresql_behind_pgbouncer, make_pgbouncer_url, is_pooled
):
    url = (
        make_pgbouncer_url("placement")
        if is_pooled
        else postgresql_behind_pgbouncer.url("placement")
    )
    database = Database(make_settings(url))
    statement = FrequentStatement(select(literal_column("1 + 1").label("sum")))
    with database.read() as connection:
        for _ in range(3):
            assert statement.fetch_rows(connection, {}) == [(2,)]
        driver = connection.connection.driver_connection
        assert driver.has_own_session is not is_pooled
        prepared = connection.scalars(text("SELECT statement FROM pg_prepared_statements")).all()
    assert any("1 + 1" in each for each in prepared) is not is_pooled
    database.dispose()


def test_nova_databases_are_read_through_pgbouncer(postgresql_behind_pgbouncer, make_pgbouncer_url):
    engine = create_engine(postgresql_behind_pgbouncer.url("nova_api"))
    API.create_all(engine)
    engine.dispose()
    database = NovaDatabase("nova_api", parse_url(make_pgbouncer_url("nova_api"), "connection"))

    def read_nova_hosts(_number):
        with database.read() as connection:
            return list(list_mapped_cells(connection))

    # Prepared statements would be missing in the sessions of other clients.
    assert call_concurrently(NOVA_READ_COUNT, read_nova_hosts) == [[]] * NOVA_READ_COUNT
    database.close()
