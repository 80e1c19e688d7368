# SPDX-License-Identifier: Apache-2.0
"""Overload by many clients, impatient clients and readiness checks."""

import logging
import threading
import time
from collections import Counter
from collections.abc import Sequence
from functools import partial
from http.client import HTTPConnection, HTTPException
from multiprocessing.synchronize import Barrier
from urllib.parse import urlsplit

import pytest

from tests.chaos.run_length import IS_FULL_RUN, TRIED_KEY, choose_count
from tests.support.processes import run_in_processes
from tests.support.scheduling import make_report
from tests.support.servers import Server
from tests.support.versions import LATEST_HEADERS
from tests.verifier.verify import assert_invariants

pytestmark = pytest.mark.chaos

LOG = logging.getLogger(__name__)

LOAD_SECONDS = choose_count(2, 10)
#: Seconds of the measurement with few clients.
SHORT_LOAD_SECONDS = 2
#: The short form repeats the loads, so that other work on the machine slows each load.
FEW_CLIENTS, CLIENT_COUNTS = 8, (8, 16, 32)
REPETITIONS_PER_LOAD, REPETITION_SECONDS = choose_count(3, 1), choose_count(1, 10)
#: Minimum share of the best throughput at four times the load. It is nearly 1 on an idle machine,
#: and at least a half if other work sometimes takes the processors.
MIN_THROUGHPUT_SHARE = 0.8 if IS_FULL_RUN else 0.5
#: Maximum number of 503 responses to a client per queue timeout. A request waits for the timeout
#: before its 503, even on a busy machine. A server without a queue sends ten times as many.
MAX_REJECTIONS_PER_TIMEOUT = 1.2
#: Clients that wait for less than a turn of all of them, and the share of the turn.
IMPATIENT_CLIENTS, PATIENCE_SHARE = 64, 0.9
#: Minimum share of the responses to patient clients. The server answers requests in order, so
#: clients often give up shortly before their turn. The share is 0.55 on two idle cores.
MIN_SHARE_OF_IMPATIENT_CLIENTS = 0.4
#: Clients that request readiness without pause, and the minimum share of the throughput of other
#: clients. All share the processors with the server and the database. The share was 2 % when
#: readiness had priority over waiting requests, and is 70 % with a separate thread.
READINESS_CLIENTS, MIN_SHARE_DURING_READINESS_CHECKS = 32, 0.1
READINESS_PATH = "/healthz/ready"
API_PATHS = [
    "/placement/allocation_candidates?resources=VCPU:1,MEMORY_MB:64&limit=10",
    "/placement/resource_providers?name=cn1",
]
#: Requests of several milliseconds. The process of 32 clients may need more time to send a short
#: request than a client waits.
LARGE_HOST_COUNT = 1000
LARGE_PATHS = ["/placement/allocation_candidates?resources=VCPU:1,MEMORY_MB:64"]


def start_server_with_hosts(serve, database_url: str, count: int = 200) -> Server:
    """Return a server with a worker and ``count`` hosts."""
    server = serve(OS_PLACEMENT_DATABASE__CONNECTION=database_url)
    hosts = [make_report(f"cn{number}") for number in range(count)]
    assert server.post("/scheduler/v1/compute_nodes", hosts)[0] < 300
    return server


def count_request_outcomes(
    server,
    clients: int,
    seconds: float,
    timeout: float = 60,
    readiness_clients: int = 0,
    paths: Sequence[str] = API_PATHS,
) -> Counter[str]:
    """Return counts of the outcomes of clients in two processes.

    A third process requests readiness. Its outcomes have the path as prefix.
    """
    counts = run_in_processes(
        3 if readiness_clients else 2,
        _run_client_process,
        server.url,
        clients // 2,
        seconds,
        timeout,
        readiness_clients,
        paths,
    )
    return sum(counts, Counter())


def _run_client_process(
    barrier: Barrier,
    which: int,
    url: str,
    clients: int,
    seconds: float,
    timeout: float,
    readiness_clients: int,
    paths: Sequence[str],
) -> list[Counter[str]]:
    barrier.wait(120)
    if which < 2:
        return [count_outcomes_of_clients(seconds, clients, url, paths, timeout)]
    outcomes = count_outcomes_of_clients(seconds, readiness_clients, url, [READINESS_PATH], timeout)
    return [Counter({f"{READINESS_PATH} {outcome}": count for outcome, count in outcomes.items()})]


ADMIN_HEADERS = {"X-Auth-Token": "admin", **LATEST_HEADERS}


def count_outcomes_of_clients(
    seconds: float, clients: int, url: str, paths: Sequence[str], timeout: float
) -> Counter[str]:
    """Let each client request the paths in turn, and count the outcomes.

    A client that has waited for ``timeout`` seconds closes its connection and opens another.
    Outcomes are statuses, ``503 without Retry-After``, ``gave up`` and ``cut``.
    """
    outcomes: Counter[str] = Counter()
    end = time.monotonic() + seconds
    lock = threading.Lock()

    def send_requests_of_client(number: int) -> None:
        counts: Counter[str] = Counter()
        connection = HTTPConnection(urlsplit(url).netloc, timeout=timeout)
        turn = number
        while time.monotonic() < end:
            path = paths[turn % len(paths)]
            turn += 1
            counts[_get_request_outcome(connection, path)] += 1
        connection.close()
        with lock:
            outcomes.update(counts)

    threads = [
        threading.Thread(target=send_requests_of_client, args=(number,))
        for number in range(clients)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=seconds + 2 * timeout + 60)
    return outcomes


def _get_request_outcome(connection: HTTPConnection, path: str) -> str:
    try:
        connection.request("GET", path, headers=ADMIN_HEADERS)
        response = connection.getresponse()
        response.read()
    except TimeoutError:
        connection.close()
        return "gave up"
    except (OSError, HTTPException):
        connection.close()
        return "cut"
    if response.status == 503 and not response.headers.get("Retry-After"):
        return "503 without Retry-After"
    return str(response.status)


@pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)
def test_throughput_is_stable_under_fourfold_load(serve, database_url, record_property):
    rate = (
        count_request_outcomes(
            start_server_with_hosts(serve, database_url), FEW_CLIENTS, SHORT_LOAD_SECONDS
        )["200"]
        / SHORT_LOAD_SECONDS
    )
    # The time that a request waits on this machine with three times as many clients.
    timeout = 3 * FEW_CLIENTS / rate
    server = serve(
        OS_PLACEMENT_DATABASE__CONNECTION=database_url, OS_API__QUEUE_TIMEOUT=f"{timeout:.4f}"
    )
    count_request_outcomes(server, FEW_CLIENTS, 1)
    responses, rejections = Counter[int](), 0
    for load in CLIENT_COUNTS * REPETITIONS_PER_LOAD:
        outcomes = count_request_outcomes(server, load, REPETITION_SECONDS)
        assert set(outcomes) <= {"200", "503"}  # with Retry-After, else the outcome differs
        assert outcomes["503"] <= MAX_REJECTIONS_PER_TIMEOUT / timeout * REPETITION_SECONDS * load
        responses[load] += outcomes["200"]
        rejections += outcomes["503"]
    rates = {
        load: round(count / REPETITION_SECONDS / REPETITIONS_PER_LOAD)
        for load, count in responses.items()
    }
    LOG.info("responses a second by clients: %s, %s rejected", rates, rejections)
    record_property(TRIED_KEY, f"responses a second by clients: {rates}, {rejections} rejected")
    assert all(responses[load] for load in CLIENT_COUNTS)
    assert responses[CLIENT_COUNTS[-1]] >= MIN_THROUGHPUT_SHARE * max(responses.values())
    if IS_FULL_RUN:  # in the short form, other work may have made the timeout too long
        assert outcomes["503"]


@pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)
def test_impatient_clients_do_not_stop_a_server(serve, database_url, database, record_property):
    server = start_server_with_hosts(serve, database_url, LARGE_HOST_COUNT)
    count_requests = partial(count_request_outcomes, server, paths=LARGE_PATHS)
    count_requests(FEW_CLIENTS, 1)
    patient_responses = count_requests(FEW_CLIENTS, LOAD_SECONDS)["200"]
    timeout = PATIENCE_SHARE * IMPATIENT_CLIENTS * LOAD_SECONDS / patient_responses
    outcomes = count_requests(IMPATIENT_CLIENTS, LOAD_SECONDS, timeout)
    assert set(outcomes) <= {"200", "503", "gave up"}
    assert server.get("/healthz")[0] == 200
    assert_invariants(database)
    LOG.info("of %s responses to patient clients: %s", patient_responses, outcomes)
    record_property(
        TRIED_KEY,
        f"{IMPATIENT_CLIENTS} clients that wait for {timeout:.2f} s: "
        f"{outcomes['200'] / patient_responses:.0%} of responses, {outcomes['gave up']} given up",
    )
    if IS_FULL_RUN:
        assert outcomes["gave up"]
        assert outcomes["200"] >= MIN_SHARE_OF_IMPATIENT_CLIENTS * patient_responses


@pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)
def test_readiness_checks_do_not_delay_other_clients(serve, database_url, record_property):
    server = start_server_with_hosts(serve, database_url)
    count_request_outcomes(server, FEW_CLIENTS, 1)
    responses_alone = count_request_outcomes(server, FEW_CLIENTS, SHORT_LOAD_SECONDS)["200"]
    outcomes = count_request_outcomes(
        server, FEW_CLIENTS, SHORT_LOAD_SECONDS, readiness_clients=READINESS_CLIENTS
    )
    LOG.info("of %s responses without readiness clients: %s", responses_alone, outcomes)
    record_property(
        TRIED_KEY,
        f"{READINESS_CLIENTS} clients that request readiness: "
        f"{outcomes['200'] / responses_alone:.0%} of the responses to other clients",
    )
    assert set(outcomes) == {"200", f"{READINESS_PATH} 200"}
    assert outcomes["200"] >= MIN_SHARE_DURING_READINESS_CHECKS * responses_alone
