# SPDX-License-Identifier: Apache-2.0
"""CPU time of the largest requests, and ``/healthz`` while they run."""

import http.client
import itertools
import json
import logging
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple
from urllib.parse import urlsplit

import psutil
import pytest

from placement_sched.limits import MAX_JSON_BYTES
from tests.chaos.probes import full_collections, hardware, largest, nested
from tests.chaos.scale import TRIED, WHOLE, choose_count
from tests.support.scheduling import flavor, report, spec
from tests.support.versions import LATEST_HEADERS

pytestmark = pytest.mark.chaos

LOG = logging.getLogger(__name__)
#: Maximum seconds of CPU per request.
BOUND = 1.0
#: Bytes just below the default of ``[api] max_request_body_size``.
MANY = 16 * 2**20 - 100
HOSTS = choose_count(30, 300)
#: The cheapest run is the cost of a request, because other work of the process counts, too.
RUNS = 3
#: Seconds until a request above the maximum is measured again: a shared machine may be slow for a
#: while.
PAUSE = 5
#: Number of hosts in aggregates.
IN_AGGREGATES = choose_count(30, 100)


class LargeRequest(NamedTuple):
    """A request with a name that describes its large part."""

    name: str
    method: str
    path: str
    body: bytes | None = None


def largest_requests() -> Iterator[LargeRequest]:
    """Yield the largest requests of each kind."""
    for name, body in largest.large_json_bodies(MANY).items():
        yield LargeRequest(f"{name} to the reshaper", "POST", "/placement/reshaper", body)
        if WHOLE:
            yield LargeRequest(f"{name} as reports", "POST", "/scheduler/v1/compute_nodes", body)
    paths = ["/image/v2/images", "/placement/allocations", "/scheduler/v1/select_destinations"]
    for name, body in largest.large_json_bodies(MAX_JSON_BYTES).items():
        for path in paths[: choose_count(1, len(paths))]:
            yield LargeRequest(f"{name} to {path}", "POST", path, body)
    for name, query in largest.large_queries().items():
        yield LargeRequest(f"query: {name}", "GET", f"/placement/allocation_candidates?{query}")
    for name, document in largest.explain_requests().items():
        yield build_explain_request(name, document)
    yield from itertools.starmap(build_request, largest.other_requests())


def hardware_requests() -> Iterator[LargeRequest]:
    """Yield the largest requests for NUMA nodes, devices and other hardware."""
    for name, document in hardware.explain_requests().items():
        yield build_explain_request(name, document)


def tree_requests() -> Iterator[LargeRequest]:
    """Yield the costliest candidates queries for a tree of many providers."""
    for name, query in nested.tree_queries().items():
        for limit in ("", "&limit=1", "&limit=1000"):
            path = f"/placement/allocation_candidates?{query}{limit}"
            yield LargeRequest(f"query: {name}{limit}", "GET", path)


@pytest.fixture
def server(serve, database_url):
    # The tests measure CPU time, so a busy machine may take long.
    patient = {"OS_SCHEDULER__WHAT_IF_TIMEOUT": "120"}
    server = serve("--workers", "1", OS_PLACEMENT_DATABASE__CONNECTION=database_url, **patient)
    hosts = [report(f"cn{number}") for number in range(HOSTS)]
    assert server.post("/scheduler/v1/compute_nodes", hosts)[0] < 300
    return server


@pytest.fixture
def server_with_devices(serve, tmp_path, database_url):
    """Serve a cloud of hosts with NUMA nodes and devices, and filters that read them."""
    file = tmp_path / "devices.conf"
    file.write_text(hardware.server_configuration())
    server = serve(
        "--workers", "1", "--config-file", file, OS_PLACEMENT_DATABASE__CONNECTION=database_url
    )
    # 25 reports are as large as a request may be.
    reports = hardware.host_reports(HOSTS)
    for at in range(0, HOSTS, 25):
        assert server.post("/scheduler/v1/compute_nodes", reports[at : at + 25])[0] < 300
    return server


def send_request(url: str, sent: LargeRequest) -> int:
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=60)
    headers = {
        **LATEST_HEADERS,
        "X-Auth-Token": "admin",
        "X-Roles": "admin,service",
        "Content-Type": "application/json",
    }
    connection.request(sent.method, sent.path, sent.body, headers)
    status = connection.getresponse().status
    connection.close()
    return status


def measure_cpu_seconds(server, sent: LargeRequest) -> float:
    """Return the seconds of CPU that a request costs the worker."""
    (pid,) = server.workers()
    worker = psutil.Process(pid)
    costs = []
    for _ in range(1 if sent.name in largest.ACCEPTED else RUNS):
        before = worker.cpu_times()
        status = send_request(server.url, sent)
        assert status < (300 if sent.name in largest.ACCEPTED else 500), sent.name
        after = worker.cpu_times()
        costs.append(after.user + after.system - before.user - before.system)
        if costs[-1] < BOUND:
            break
    return min(costs)


def build_request(name: str, method: str, path: str, document: object) -> LargeRequest:
    body = None if document is None else json.dumps(document).encode()
    return LargeRequest(name, method, path, body)


def build_explain_request(name: str, document: object) -> LargeRequest:
    return build_request(f"explain: {name}", "POST", "/scheduler/v1/explain", document)


def check_costs(server, large: Iterable[LargeRequest], record_property) -> None:
    """Fail if a request costs :data:`BOUND` seconds or more."""
    costs: dict[str, float] = {}
    for sent in large:
        name, again = sent.name, sent
        costs[name] = measure_cpu_seconds(server, sent)
        for turn in range(1, 1 + RUNS):
            if costs[name] < BOUND or name in largest.ACCEPTED - largest.RENEWED:
                break
            time.sleep(PAUSE)
            if name in largest.RENEWED:
                again = build_request(*largest.build_renewed_request(name, turn))
            costs[name] = min(costs[name], measure_cpu_seconds(server, again))
    most = max(costs, key=costs.__getitem__)
    LOG.info("seconds of CPU: %s", sorted(costs.items(), key=lambda item: -item[1])[:20])
    assert costs[most] < BOUND, {name: cost for name, cost in costs.items() if cost >= BOUND}
    record_property(TRIED, f"{len(costs)} requests, the costliest {costs[most]:.2f} s ({most})")


@pytest.mark.parametrize(
    "database_url", ["sqlite", "postgresql"][: choose_count(1, 2)], indirect=True
)
def test_largest_request_costs_less_than_a_second_of_cpu(server, record_property):
    check_costs(server, largest_requests(), record_property)


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_hardware_request_costs_less_than_a_second_of_cpu(server_with_devices, record_property):
    check_costs(server_with_devices, hardware_requests(), record_property)


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_large_tree_query_costs_less_than_a_second_of_cpu(server, record_property):
    version = LATEST_HEADERS["OpenStack-API-Version"]
    for method, path, document in nested.requests_that_create_the_tree():
        server.request_json(method, path, document, version)
    check_costs(server, tree_requests(), record_property)


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_metadata_request_costs_less_than_a_second_of_cpu(server, record_property):
    hosts = (f"cn{n}" for n in range(IN_AGGREGATES))
    for method, path, document in full_collections.many_aggregates_requests(hosts):
        server.request_json(method, path, document)
    extra = {f"k{n}_{key}": "v" * 200 for n in range(1, 11) for key in range(100)}
    option, large = "filter_scheduler.enabled_filters", []
    for name in (
        "AggregateImagePropertiesIsolation",
        "AggregateInstanceExtraSpecsFilter",
        "AggregateMultiTenancyIsolation",
    ):
        document = {"request_spec": spec(flavor=flavor(extra_specs=extra))}
        large.append(build_explain_request(name, {**document, "overrides": {option: [name]}}))
    check_costs(server, large, record_property)


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_healthz_is_answered_during_the_largest_requests(server):
    large = [sent for sent in largest_requests() if sent.name.startswith(("keys", "explain"))]
    # Each added host takes a millisecond.
    changes = {"changes": [{"add": {"like": "cn0", "count": 500}}]}
    large.append(build_request("a plan", "POST", "/scheduler/v1/plan", changes))
    with ThreadPoolExecutor(4) as pool:
        running = [pool.submit(send_request, server.url, sent) for sent in large]
        answered = 0
        while not all(future.done() for future in running):
            assert server.get("/healthz")[0] == 200
            answered += 1
    assert answered
    assert {future.result() for future in running} <= {200, 400, 413}
