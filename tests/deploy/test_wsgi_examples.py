# SPDX-License-Identifier: Apache-2.0
"""The examples for other WSGI servers."""

import configparser
import json
import re
import signal
import socket
import time
from contextlib import closing, suppress
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlsplit
from uuid import uuid4

import pytest

from tests.deploy import DEPLOY_FOLDER, check_query_length_limit
from tests.support.servers import PROGRAMS_FOLDER, Server, build_environment, start_server
from tests.support.versions import LATEST_HEADERS

pytestmark = pytest.mark.system

WSGI_FOLDER = DEPLOY_FOLDER / "wsgi"
CONF_PATH = "/etc/placement_sched/placement_sched.conf"


@pytest.fixture
def config_file(tmp_path: Path) -> Path:
    file = tmp_path / "placement_sched.conf"
    file.write_text(
        "[placement_database]\nconnection = sqlite:///placement_sched.db\n"
        "[api]\nauth_strategy = noauth2\n"
    )
    return file


def read_request_counts(server: Server) -> set[bytes]:
    """Return the numbers of lists of providers that workers have in their metrics."""
    name = rb'placement_sched_requests_total\{.*route="/resource_providers",.*\} (\S+)'
    return {number for _ in range(12) for number in re.findall(name, server.get("/metrics")[2])}


def send_endless_request_line(server: Server) -> bytes:
    """Send 100 000 bytes of a request line without an end and return the response."""
    host, port = urlsplit(server.url).netloc.split(":")
    with closing(socket.create_connection((host, int(port)), timeout=60)) as connection:
        with suppress(ConnectionError):
            connection.sendall(b"GET /placement/" + b"a" * 100_400)
        return connection.recv(1000)


def send_sigterm_within_a_request(server: Server) -> int:
    """Send SIGTERM to a server between the halves of a request and return the status."""
    body = json.dumps({"name": "rack", "uuid": str(uuid4())}).encode()
    with closing(HTTPConnection(urlsplit(server.url).netloc, timeout=60)) as connection:
        connection.putrequest("POST", "/placement/resource_providers")
        headers = {"X-Auth-Token": "admin", **LATEST_HEADERS, "Content-Type": "application/json"}
        for name, value in {**headers, "Content-Length": str(len(body))}.items():
            connection.putheader(name, value)
        connection.endheaders(body[:5])
        time.sleep(1)  # until a worker has read the first half
        server.process.send_signal(signal.SIGTERM)
        time.sleep(1)
        connection.send(body[5:])
        return connection.getresponse().status


def test_gunicorn_with_the_example_serves_and_finishes_a_request_after_sigterm(
    tmp_path, config_file
):
    variables = build_environment(
        PLACEMENT_SCHED_CONFIG=str(config_file),
        PLACEMENT_SCHED_BIND="127.0.0.1:{port}",
        TMPDIR=str(tmp_path),
    )
    # A variable overrides the address of the example.
    command = ("env", "PLACEMENT_SCHED_BIND=127.0.0.1:{port}", PROGRAMS_FOLDER / "gunicorn")
    arguments = ("--config", WSGI_FOLDER / "gunicorn.conf.py", "placement_sched.wsgi:application")
    with start_server(
        command=[*command, *arguments], folder=tmp_path, variables=variables
    ) as server:
        assert server.get("/placement/resource_providers")[0] == 200
        # The four workers share a folder of metrics.
        assert read_request_counts(server) == {b"1.0"}
        check_query_length_limit(server.url)
        assert send_endless_request_line(server).startswith(b"HTTP/1.1 414 ")
        (folder,) = tmp_path.glob("placement_sched_*/")
        assert send_sigterm_within_a_request(server) == 200
        assert server.process.wait(60) == 0
    assert not folder.exists()


def test_uwsgi_with_the_example_serves_and_finishes_a_request_after_sigterm(tmp_path, config_file):
    ini = WSGI_FOLDER / "uwsgi.ini"
    folder = tmp_path / "figures"
    folder.mkdir()
    with start_server(
        command=[
            "sh",
            "-c",
            f"sed s/8778/{{port}}/ {ini} > run.ini; exec {PROGRAMS_FOLDER}/uwsgi run.ini",
        ],
        folder=tmp_path,
        variables=build_environment(
            PLACEMENT_SCHED_CONFIG=str(config_file), PROMETHEUS_MULTIPROC_DIR=str(folder)
        ),
        how=signal.SIGTERM,
    ) as server:
        assert server.get("/placement/resource_providers")[0] == 200
        # The four workers share a folder of metrics.
        assert read_request_counts(server) == {b"1.0"}
        server.post("/placement/resource_providers", {"name": "other"})
        for count in (800, 900, 1700):  # 30 000, 33 000 and 63 000 bytes
            aggregates = ",".join(str(uuid4()) for _ in range(count))
            path = f"/placement/resource_providers?member_of=in:{aggregates}"
            status, _, body = server.get(path, **LATEST_HEADERS)
            assert (status, json.loads(body)) == (200, {"resource_providers": []})
        assert send_sigterm_within_a_request(server) == 200


def test_mod_wsgi_example_has_the_paths_of_the_guide():
    assert CONF_PATH in (WSGI_FOLDER / "wsgi.py").read_text()
    apache = (WSGI_FOLDER / "apache.conf").read_text()
    assert "WSGIScriptAlias / /usr/local/share/placement_sched/wsgi.py\n" in apache


def test_wsgi_examples_have_the_number_of_threads_of_our_server():
    from placement_sched.cli.serve import GRACE, THREADS

    gunicorn = (WSGI_FOLDER / "gunicorn.conf.py").read_text()
    assert f"\nthreads = {THREADS}\n" in gunicorn
    assert f"\ngraceful_timeout = {GRACE}\n" in gunicorn
    uwsgi = configparser.ConfigParser()
    uwsgi.read(WSGI_FOLDER / "uwsgi.ini")
    assert uwsgi["uwsgi"].getint("threads") == THREADS
    assert uwsgi["uwsgi"].getint("worker-reload-mercy") == GRACE
    assert f" threads={THREADS} " in (WSGI_FOLDER / "apache.conf").read_text()
