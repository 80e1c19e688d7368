# SPDX-License-Identifier: Apache-2.0
"""HAProxy and nginx with TLS in front of two servers, and the replacement of a server."""

import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
import requests

from tests.deploy import haproxy, nginx
from tests.support.loopback import reserve_port
from tests.support.servers import Server, build_environment, start_server, wait_until

pytestmark = pytest.mark.exhaustive

ADMIN_HEADERS = {"X-Auth-Token": "admin", "OpenStack-API-Version": "placement 1.39"}


@dataclass(frozen=True)
class RunningTLSProxy:
    """A proxy with the path of its certificate, and its servers with their ports."""

    url: str
    certificate: Path
    folder: Path
    servers: list[Server]
    ports: list[int]


@pytest.fixture(scope="module", params=[haproxy, nginx], ids=["haproxy", "nginx"])
def tls_proxy(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RunningTLSProxy]:
    folder = tmp_path_factory.mktemp("front")
    with ExitStack() as stack:
        sockets = [stack.enter_context(reserve_port()) for _ in range(2)]
        ports = [each.getsockname()[1] for each in sockets]
        servers = [stack.enter_context(run_server_on_port(folder, port)) for port in ports]
        url, signed = stack.enter_context(request.param.start_proxy(folder, ports))
        yield RunningTLSProxy(url, signed, folder, servers, ports)


@contextmanager
def run_server_on_port(folder: Path, port: int) -> Iterator[Server]:
    """Run a server on this port, with the database of ``folder``."""
    variables = build_environment(
        OS_PLACEMENT_DATABASE__CONNECTION=f"sqlite:///{folder}/both.db",
        OS_OSLO_MIDDLEWARE__ENABLE_PROXY_HEADERS_PARSING="true",
        OS_DEFAULT__SERVICE_DOWN_TIME="86400",
        OS_API__SHUTDOWN_DELAY="5",  # the value of deploy/placement_sched.conf
    )
    with start_server(
        "--port", str(port), folder=folder, log=folder / f"{port}.log", variables=variables
    ) as server:
        yield server


def create_https_session(tls_proxy: RunningTLSProxy) -> requests.Session:
    session = requests.Session()
    session.trust_env = False
    session.verify = str(tls_proxy.certificate)
    session.headers.update(ADMIN_HEADERS)
    return session


def test_proxy_serves_no_metrics_and_drops_host_headers_of_clients(tls_proxy):
    session = create_https_session(tls_proxy)
    assert session.get(f"{tls_proxy.url}/metrics", timeout=60).status_code == 403
    assert tls_proxy.servers[0].get("/metrics")[0] == 200
    forged = {"X-Forwarded-Host": "evil.example", "Forwarded": "host=evil.example;proto=http"}
    document = session.get(f"{tls_proxy.url}/compute", headers=forged, timeout=60).json()
    links = [link["href"] for version in document["versions"] for link in version["links"]]
    assert links
    assert all(link.startswith(tls_proxy.url) for link in links)


def test_requests_through_a_proxy_succeed_while_a_server_is_replaced(tls_proxy):
    statuses: Counter[str] = Counter()
    stop_event = threading.Event()

    def send_requests_until_stopped(client: int) -> None:
        with create_https_session(tls_proxy) as session:
            for number in range(1_000_000):
                if stop_event.is_set():
                    return
                body = {"name": f"p-{client}-{number}"}
                url = f"{tls_proxy.url}/placement/resource_providers"
                try:
                    if number % 2:
                        status = str(session.post(url, json=body, timeout=60).status_code)
                    else:
                        status = str(session.get(url, params=body, timeout=60).status_code)
                except requests.RequestException as failure:
                    status = repr(failure)
                statuses[status] += 1
                time.sleep(0.005)

    clients = [
        threading.Thread(target=send_requests_until_stopped, args=(number,)) for number in range(4)
    ]
    for client in clients:
        client.start()
    try:
        first_server, second_server = tls_proxy.servers
        assert wait_until(
            lambda: (
                has_logged_provider_request(first_server)
                and has_logged_provider_request(second_server)
            )
        )
        assert first_server.stop() == 0
        before = statuses.total()
        assert wait_until(lambda: statuses.total() > before + 100)  # from the second server
        with run_server_on_port(tls_proxy.folder, tls_proxy.ports[0]) as replacement:
            assert wait_until(lambda: has_logged_provider_request(replacement))
            stop_event.set()
            for client in clients:
                client.join(timeout=120)
    finally:
        stop_event.set()
    assert set(statuses) == {"200"}


def has_logged_provider_request(server: Server) -> bool:
    """Return whether the server has had a request through the proxy."""
    return "/placement/resource_providers" in server.log.read_text()
