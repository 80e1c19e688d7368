# SPDX-License-Identifier: Apache-2.0
"""``placement-sched serve`` as a process: start, responses, workers and signals."""

import asyncio
import json
import os
import re
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
import time
from contextlib import closing, contextmanager

import psutil
import pytest
import uvloop

from placement_sched.cli.serve import _stop_at_first_signal
from placement_sched.db.migrate import VERSION_TABLE
from tests.support.commands import run_captured
from tests.support.loopback import reserve_port
from tests.support.servers import wait_until
from tests.support.versions import LATEST

pytestmark = pytest.mark.system
EXHAUSTIVE_MARK = pytest.mark.exhaustive


def get_at_latest_version(server, path="/placement/resource_providers"):
    return server.get(path, **{"OpenStack-API-Version": "placement latest"})


def parse_single_error(body: bytes) -> dict:
    (error,) = json.loads(body)["errors"]
    return error


def list_workers(server):
    return psutil.Process(server.process.pid).children(recursive=True)


def test_server_starts_without_configuration_and_stops_cleanly(serve, tmp_path):
    server = serve("--workers", "2")
    assert get_at_latest_version(server)[0] == 200
    assert (tmp_path / "placement_sched.db").exists()
    assert re.fullmatch(
        r"placement-sched serves http://127\.0\.0\.1:\d+ on "
        r"sqlite:///placement_sched\.db, auth noauth2, workers 2",
        server.startup,
    )
    assert server.stop() == 0
    with closing(socket.socket()) as trial:
        assert trial.connect_ex(("127.0.0.1", int(server.url.rpartition(":")[2]))) != 0


@pytest.mark.parametrize(
    "host",
    ["[::1]", *(pytest.param(name, marks=EXHAUSTIVE_MARK) for name in ("127.0.0.1", "localhost"))],
)
def test_server_listens_on_host_and_port_of_the_bind_option(serve, host):
    server = serve("--bind", f"{host}:0", ready=None)
    server.wait_for("/placement/", 200)
    assert re.match(rf"placement-sched serves http://{re.escape(host)}:\d+ on ", server.startup)


@pytest.mark.parametrize(
    ("option", "value", "error"),
    [
        ("--bind", "127.0.0.1", "127.0.0.1 is not HOST:PORT or [IPV6]:PORT"),
        ("--bind", "::1:8778", "::1:8778 is not HOST:PORT or [IPV6]:PORT"),
        ("--bind", "[::1]:99999", "99999 is not a port (0 to 65535)"),
        ("--port", "x", "x is not a port (0 to 65535)"),
        ("--port", "65536", "65536 is not a port (0 to 65535)"),
        ("--workers", "0", "expected a number of 1 or more, not '0'"),
    ],
)
def test_invalid_serve_option_is_reported_in_one_line(run_main, option, value, error):
    status, printed, reported = run_main("serve", option, value)
    assert (status, printed) == (2, "")
    assert f"argument {option}: {error} (see " in reported
    assert reported.count("\n") == 1


def test_startup_line_hides_the_database_password(serve):
    server = serve(
        ready=None, OS_PLACEMENT_DATABASE__CONNECTION="postgresql://u:geheim@127.0.0.1:1/x"
    )
    assert "geheim" not in server.startup
    assert "on postgresql+" in server.startup


def test_access_log_is_common_format_with_the_request_id(serve):
    server = serve()
    _, headers, body = server.get("/placement/resource_providers?name=x%22%0Ay", token="a\nb"[:1])
    request_id = {key.lower(): value for key, value in headers.items()}["x-openstack-request-id"]
    # The server writes the line after the response.
    assert wait_until(lambda: re.search(rf"{request_id} .* ms\n", server.log.read_text()))
    (line,) = [line for line in server.read_log_lines() if request_id in line]
    assert re.search(
        r"127\.0\.0\.1 - - \[\d\d/\w{3}/\d{4}:\d\d:\d\d:\d\d [+-]\d{4}\] "
        r'"GET /placement/resource_providers\?name=x%22%0Ay HTTP/1\.1" '
        rf"403 {len(body)} {request_id} \d+\.\d ms$",
        line,
    )


@pytest.mark.parametrize(
    "inherited_handler", [signal.default_int_handler, signal.SIG_IGN], ids=["default", "ignored"]
)
def test_sigint_stops_the_server_even_if_it_inherits_an_ignored_sigint(serve, inherited_handler):
    previous_handler = signal.signal(signal.SIGINT, inherited_handler)
    try:
        server = serve()
    finally:
        signal.signal(signal.SIGINT, previous_handler)
    assert server.stop(signal.SIGINT) == 0
    assert "Traceback" not in server.log.read_text()


def test_server_finishes_a_running_request_after_sigterm(serve, tmp_path):
    server = serve(OS_PLACEMENT_DATABASE__LOCK_TIMEOUT="60")
    statuses = []
    with closing(sqlite3.connect(tmp_path / "placement_sched.db")) as other_connection:
        other_connection.execute("BEGIN IMMEDIATE")
        waiting = threading.Thread(target=lambda: statuses.append(create_resource_class(server)))
        waiting.start()
        (worker,) = list_workers(server)
        assert wait_until(lambda: has_connected_client(worker))
        time.sleep(0.5)  # The request follows the connection.
        server.process.terminate()
        assert wait_until(lambda: "stopping: SIGTERM" in server.log.read_text())
        time.sleep(2)
        other_connection.rollback()
        waiting.join(timeout=240)
    assert statuses == [201]
    assert server.process.wait(timeout=60) == 0


def test_stopping_server_is_not_ready_and_closes_connections(serve):
    server = serve(OS_API__SHUTDOWN_DELAY="60")
    server.process.terminate()
    server.wait_for("/healthz/ready", 503)
    assert b"the server is stopping" in server.get("/healthz/ready")[2]
    assert server.get("/healthz/live")[0] == 200
    status, headers, _ = server.get("/placement/")
    assert (status, headers["connection"]) == (200, "close")
    assert server.stop() == 0  # a second signal ends the delay


def test_sigint_stops_the_server_without_the_shutdown_delay(serve):
    server = serve(OS_API__SHUTDOWN_DELAY="600")
    assert server.stop(signal.SIGINT) == 0


def has_connected_client(worker: psutil.Process) -> bool:
    """Return whether a worker has a client."""
    found = worker.net_connections(kind="tcp")
    return any(connection.status == psutil.CONN_ESTABLISHED for connection in found)


def create_resource_class(server, name="CUSTOM_WAITED") -> int:
    command = ["curl", "-s", "-o", "/dev/null", "-w", "%{http_code}", "-X", "PUT"]
    headers = ["-H", "X-Auth-Token: admin", "-H", f"OpenStack-API-Version: placement {LATEST}"]
    url = f"{server.url}/placement/resource_classes/{name}"
    done = run_captured([*command, *headers, url], check=True)
    return int(done.stdout)


def test_connection_limit_leaves_file_descriptors_for_other_files():
    code = (
        "from placement_sched.cli.service import raise_connection_limit;"
        "import resource as r; r.setrlimit(r.RLIMIT_NOFILE, (200, {hard}));"
        "print(raise_connection_limit(), *r.getrlimit(r.RLIMIT_NOFILE))"
    )
    for hard, limits in ((700, "444 700 700"), (4000, "1024 1280 4000")):
        command = [sys.executable, "-c", code.format(hard=hard)]
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=240)
        assert done.stdout.strip() == limits


def test_port_in_use_is_reported_in_one_line(serve, run_command):
    server = serve()
    port = server.url.rpartition(":")[2]
    refused = run_command("serve", "--port", port)
    assert refused.returncode == 1
    assert refused.stderr == (
        f"placement-sched: cannot listen on 127.0.0.1:{port}: Address already in use\n"
    )


@pytest.mark.parametrize("host", ["0.0.0.0", "::"])
def test_noauth2_is_not_served_to_other_machines_by_default(run_command, host):
    refused = run_command("serve", "--host", host, "--port", "0")
    assert refused.returncode == 1
    assert refused.stderr.startswith(f"placement-sched: {host} is not a loopback address")
    assert refused.stderr.count("\n") == 1


def test_noauth2_set_in_a_file_is_served_to_other_machines(serve, tmp_path):
    connection = "[placement_database]\nconnection = sqlite:///open.db\n"
    (tmp_path / "open.conf").write_text(f"{connection}[api]\nauth_strategy = noauth2\n")
    server = serve("--host", "0.0.0.0", "--config-file", "open.conf", ready=None)
    server.url = server.url.replace("0.0.0.0", "127.0.0.1")
    server.wait_for("/placement/", 200)


@EXHAUSTIVE_MARK
def test_noauth2_set_in_the_environment_is_served_to_other_machines(serve):
    server = serve("--host", "0.0.0.0", ready=None, OS_API__AUTH_STRATEGY="noauth2")
    assert "http://0.0.0.0:" in server.startup


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--config-file", "absent.conf"], "absent.conf"),
        (["--host", "no.such.host.invalid"], "cannot listen on no.such.host.invalid"),
    ],
)
def test_missing_config_file_or_unknown_host_is_reported(run_command, arguments, words):
    # Look-ups of an unknown name last until the slowest name server has answered.
    refused = run_command("serve", *arguments, RES_OPTIONS="timeout:1 attempts:1")
    assert refused.returncode != 0
    assert words in refused.stderr
    assert refused.stderr.count("\n") == 1


def test_two_workers_share_one_sqlite_database(serve):
    server = serve("--workers", "2")
    statuses = [create_resource_class(server, f"CUSTOM_{number}") for number in range(20)]
    assert statuses == [201] * 20
    body = json.loads(get_at_latest_version(server, "/placement/resource_classes")[2])
    names = {entry["name"] for entry in body["resource_classes"]}
    assert {f"CUSTOM_{number}" for number in range(20)} <= names


@pytest.mark.parametrize(
    "number", [signal.SIGKILL, pytest.param(signal.SIGTERM, marks=EXHAUSTIVE_MARK)]
)
def test_worker_killed_at_its_start_is_replaced_each_time(serve, number):
    server = serve("--workers", "2")
    running_worker, killed_worker = list_workers(server)
    for _ in range(4):
        killed_worker.send_signal(number)
        killed_worker.wait(timeout=60)
        assert wait_until(lambda: len(list_workers(server)) == 2)
        (killed_worker,) = set(list_workers(server)) - {running_worker}
        time.sleep(0.3)
    server.wait_for("/placement/", 200)
    assert server.process.poll() is None
    assert running_worker.is_running()
    assert "has ended. A new worker runs in its place" in server.log.read_text()


def test_worker_that_gets_sigterm_before_its_event_loop_runs_is_stopped():
    inherited = signal.getsignal(signal.SIGTERM)
    calls = []
    with closing(uvloop.new_event_loop()) as loop:
        try:
            _stop_at_first_signal(loop)
            loop.add_signal_handler(signal.SIGTERM, calls.append, "stop")
            for _ in range(2):
                signal.raise_signal(signal.SIGTERM)
            assert calls == []  # granian connects its callback between this and the loop
            loop.run_until_complete(asyncio.sleep(0.01))
        finally:
            signal.signal(signal.SIGTERM, inherited)
    assert calls == ["stop"]


def test_replacement_worker_serves_with_a_newer_schema(serve, tmp_path):
    """During a rolling upgrade. A server that starts with that schema is not ready."""
    server = serve("--workers", "2")
    with closing(sqlite3.connect(tmp_path / "placement_sched.db")) as newer:
        newer.execute(f"UPDATE {VERSION_TABLE} SET version_num = '9999'")
        newer.commit()
    for worker in list_workers(server):
        worker.kill()
        worker.wait(timeout=60)
        assert wait_until(lambda: len(list_workers(server)) == 2)
    noted = "continues with the schema of a newer release"
    assert wait_until(lambda: server.log.read_text().count(noted) == 2)
    server.wait_for("/healthz/ready", 200)
    statuses = [create_resource_class(server, f"CUSTOM_{number}") for number in range(20)]
    assert statuses == [201] * 20
    assert server.stop() == 0
    other = serve("--workers", "2", ready=None)
    other.wait_for("/healthz", 200)
    status, _, body = other.get("/healthz/ready")
    assert status == 503
    assert b"of a newer release" in body


def test_workers_end_if_the_main_process_is_killed(serve):
    server = serve("--workers", "2")
    workers = list_workers(server)
    server.stop(signal.SIGKILL)
    _, alive = psutil.wait_procs(workers, timeout=60)
    assert alive == []


def test_write_is_503_after_the_lock_timeout_and_succeeds_once_sqlite_is_unlocked(serve, tmp_path):
    server = serve(OS_PLACEMENT_DATABASE__LOCK_TIMEOUT="1")
    with closing(sqlite3.connect(tmp_path / "placement_sched.db")) as other_connection:
        other_connection.execute("BEGIN IMMEDIATE")
        began = time.monotonic()
        assert create_resource_class(server) == 503
        assert time.monotonic() - began < 9  # the default is 10
        other_connection.rollback()
    assert create_resource_class(server) == 201


def test_reads_succeed_and_writes_wait_while_sqlite_is_locked(serve, tmp_path):
    server = serve(OS_PLACEMENT_DATABASE__LOCK_TIMEOUT="60")
    statuses = []
    with closing(sqlite3.connect(tmp_path / "placement_sched.db")) as other_connection:
        other_connection.execute("BEGIN IMMEDIATE")
        writers = [
            threading.Thread(target=lambda: statuses.append(create_resource_class(server)))
            for _ in range(6)
        ]
        for writer in writers:
            writer.start()
        time.sleep(0.3)
        began = time.monotonic()
        assert server.get("/healthz")[0] == 200
        assert get_at_latest_version(server)[0] == 200
        assert time.monotonic() - began < 30
        assert wait_until(lambda: statuses.count(503) == 4, 50)
        other_connection.rollback()
        for writer in writers:
            writer.join(timeout=240)
    assert sorted(statuses) in ([201, 204, *[503] * 4], [201, 201, *[503] * 4])


@contextmanager
def run_database_proxy(target: tuple[str, int], listener: socket.socket):
    """A TCP proxy at the address of ``listener`` to a database server."""

    def copy_bytes(source, sink):
        try:
            while data := source.recv(65536):
                sink.sendall(data)
        except OSError:
            pass
        for end in (source, sink):
            with closing(end):
                pass

    def accept_connections(listener):
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            upstream = socket.create_connection(target)
            for pair in ((client, upstream), (upstream, client)):
                threading.Thread(target=copy_bytes, args=pair, daemon=True).start()

    listener.listen()
    thread = threading.Thread(target=accept_connections, args=(listener,), daemon=True)
    thread.start()
    yield
    listener.shutdown(socket.SHUT_RDWR)
    thread.join(timeout=60)


def test_request_without_a_database_is_503_until_it_responds(serve, postgresql_server):
    host, _, rest = postgresql_server.partition("@")[2].partition("/")
    address, _, real_port = host.partition(":")
    with reserve_port() as listener:
        port = listener.getsockname()[1]
        url = f"{postgresql_server.partition('@')[0]}@127.0.0.1:{port}/{rest}"
        server = serve(OS_PLACEMENT_DATABASE__CONNECTION=url, ready=None)
        server.wait_for("/placement/resource_providers", 503)
        error = parse_single_error(get_at_latest_version(server)[2])
        assert error["detail"] == "the database does not answer"
        assert "Traceback" not in json.dumps(error)
        with run_database_proxy((address, int(real_port or 5432)), listener):
            server.wait_for("/placement/resource_providers", 200)


def test_wsgi_module_has_applications_of_all_apis_and_of_placement_only(tmp_path):
    code = (
        "from webtest import TestApp;"
        "from placement_sched import wsgi;"
        "print(TestApp(wsgi.application).get('/placement/').status_code,"
        "TestApp(wsgi.placement).get('/').json['versions'][0]['max_version'])"
    )
    connection = "[placement_database]\nconnection = sqlite:///a.db\n"
    (tmp_path / "a.conf").write_text(f"{connection}[api]\nauth_strategy = noauth2\n")
    done = run_captured(
        [sys.executable, "-c", code],
        env={**os.environ, "PLACEMENT_SCHED_CONFIG": str(tmp_path / "a.conf")},
        cwd=tmp_path,
        check=True,
    )
    assert done.stdout.split() == ["200", LATEST]
    assert done.stderr.count('"GET /') == 2


def test_unexpected_error_is_500_with_a_traceback_in_the_log(serve, tmp_path):
    server = serve()
    with closing(sqlite3.connect(tmp_path / "placement_sched.db")) as other_connection:
        other_connection.execute("UPDATE traits SET name = x'ff' WHERE name = 'HW_CPU_X86_AVX2'")
        other_connection.commit()
    status, _, body = get_at_latest_version(server, "/placement/traits")
    error = parse_single_error(body)
    assert status == 500
    assert "Traceback" not in body.decode()
    log = server.log.read_text()
    assert "Traceback" in log
    assert error["request_id"] in log
    assert get_at_latest_version(server)[0] == 200


#: Forks children that would sleep, each stopped before it can have taken its first step.
