# SPDX-License-Identifier: Apache-2.0
"""CPU time of the largest requests, and ``/healthz`` while they run."""

import http.client
import json
import logging
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlsplit

import psutil
import pytest

from placement_sched.limits import MAX_JSON_BYTES
from tests.chaos.probes import largest_requests
from tests.chaos.probes.largest_requests import LargeRequest
from tests.chaos.run_length import TRIED_KEY, choose_count
from tests.support.scheduling import make_report
from tests.support.versions import LATEST_HEADERS

pytestmark = pytest.mark.chaos

LOG = logging.getLogger(__name__)
#: Maximum seconds of CPU per request.
MAX_CPU_SECONDS = 1.0
#: Bytes just below the default of ``[api] max_request_body_size``.
LARGE_BODY_BYTES = 16 * 2**20 - 100
HOST_COUNT = choose_count(30, 300)
#: The cheapest run is the cost of a request, because other work of the process counts, too.
MAX_RUNS_PER_REQUEST = 4


def build_large_requests() -> Iterator[LargeRequest]:
    yield from largest_requests.build_large_bodies(LARGE_BODY_BYTES, "/placement/reshaper")
    for path in ("/image/v2/images", "/scheduler/v1/select_destinations"):
        yield from largest_requests.build_large_bodies(MAX_JSON_BYTES, path)
    yield from largest_requests.build_large_queries()
    yield from largest_requests.build_large_explain_requests()
    yield from largest_requests.build_large_write_requests()


@pytest.fixture
def server(serve, database_url):
    # The tests measure CPU time, so a busy machine may take long.
    patient = {"OS_SCHEDULER__WHAT_IF_TIMEOUT": "120"}
    server = serve("--workers", "1", OS_PLACEMENT_DATABASE__CONNECTION=database_url, **patient)
    hosts = [make_report(f"cn{number}") for number in range(HOST_COUNT)]
    assert server.post("/scheduler/v1/compute_nodes", hosts)[0] < 300
    return server


@pytest.fixture
def server_with_numa_hosts(serve, tmp_path, database_url):
    """Serve a cloud of hosts with NUMA nodes and devices, and filters that read them."""
    file = tmp_path / "devices.conf"
    file.write_text(largest_requests.build_hardware_filter_configuration())
    server = serve(
        "--workers", "1", "--config-file", file, OS_PLACEMENT_DATABASE__CONNECTION=database_url
    )
    reports = largest_requests.build_hardware_reports(HOST_COUNT)
    for at in range(0, HOST_COUNT, 25):
        assert server.post("/scheduler/v1/compute_nodes", reports[at : at + 25])[0] < 300
    return server


def send_request(url: str, sent: LargeRequest, turn: int = 0) -> int:
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=60)
    headers = {
        **LATEST_HEADERS,
        "X-Auth-Token": "admin",
        "X-Roles": "admin,service",
        "Content-Type": "application/json",
    }
    body = sent.build(turn)
    if body is not None and not isinstance(body, bytes):
        body = json.dumps(body).encode()
    connection.request(sent.method, sent.path, body, headers)
    status = connection.getresponse().status
    connection.close()
    return status


def measure_cpu_seconds(server, sent: LargeRequest) -> float:
    """Return the seconds of CPU that a request costs the worker, the least of several runs."""
    (pid,) = server.workers()
    worker = psutil.Process(pid)
    costs = []
    for turn in range(MAX_RUNS_PER_REQUEST):
        before = worker.cpu_times()
        status = send_request(server.url, sent, turn)
        assert status < (300 if sent.is_write else 500), sent.name
        after = worker.cpu_times()
        costs.append(after.user + after.system - before.user - before.system)
        if costs[-1] < MAX_CPU_SECONDS:
            break
    return min(costs)


def check_cpu_seconds(server, large: Iterable[LargeRequest], record_property) -> None:
    """Fail if a request costs :data:`MAX_CPU_SECONDS` seconds or more."""
    costs = {sent.name: measure_cpu_seconds(server, sent) for sent in large}
    most = max(costs, key=costs.__getitem__)
    LOG.info("seconds of CPU: %s", sorted(costs.items(), key=lambda item: -item[1])[:20])
    assert costs[most] < MAX_CPU_SECONDS, {
        name: cost for name, cost in costs.items() if cost >= MAX_CPU_SECONDS
    }
    record_property(TRIED_KEY, f"{len(costs)} requests, the costliest {costs[most]:.2f} s ({most})")


@pytest.mark.parametrize(
    "database_url", ["sqlite", "postgresql"][: choose_count(1, 2)], indirect=True
)
def test_largest_api_request_costs_less_than_a_second_of_cpu(server, record_property):
    check_cpu_seconds(server, build_large_requests(), record_property)


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_numa_or_pci_request_costs_less_than_a_second_of_cpu(
    server_with_numa_hosts, record_property
):
    check_cpu_seconds(
        server_with_numa_hosts, largest_requests.build_hardware_requests(), record_property
    )


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_query_of_a_large_provider_tree_costs_less_than_a_second_of_cpu(server, record_property):
    version = LATEST_HEADERS["OpenStack-API-Version"]
    for method, path, document in largest_requests.build_network_card_tree():
        server.request_json(method, path, document, version)
    check_cpu_seconds(server, largest_requests.build_network_card_queries(), record_property)


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_healthz_is_answered_during_the_largest_requests(server):
    large = [sent for sent in build_large_requests() if sent.name.startswith(("keys", "explain"))]
    with ThreadPoolExecutor(4) as pool:
        running = [pool.submit(send_request, server.url, sent) for sent in large]
        answered = 0
        while not all(future.done() for future in running):
            assert server.get("/healthz")[0] == 200
            answered += 1
    assert answered
    assert {future.result() for future in running} <= {200, 400, 413}
