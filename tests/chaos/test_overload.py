# SPDX-License-Identifier: Apache-2.0
"""More clients than a server can answer: it answers as many as before, and says 503 to the rest.

Nor do those that ask without a token whether it is ready keep it from answering the others.
"""

import logging
from collections import Counter
from multiprocessing.synchronize import Barrier

import pytest

from tests.chaos.clients import send_requests
from tests.chaos.scale import TRIED, WHOLE, choose_count
from tests.support.invariants import assert_invariants
from tests.support.processes import run_in_processes
from tests.support.scheduling import report
from tests.support.servers import Server

pytestmark = pytest.mark.chaos

LOG = logging.getLogger(__name__)

SECONDS = choose_count(2, 10)
#: In which the answers to few clients are counted.
SECONDS_TO_COUNT = 2
#: In the short form the loads take turns, so that other work on the machine meets all of them.
FEW, LOADS, TURNS, SECONDS_OF_A_TURN = 8, (8, 16, 32), choose_count(3, 1), choose_count(1, 10)
#: How much of the best goodput is left at four times the load. On a machine that is idle otherwise
#: it is nearly all; half of it is left also where other work takes the processors now and then.
AT_LEAST = 0.8 if WHOLE else 0.5
#: How often at most a client is refused in the time that a request may wait, which it does each
#: time: no other work on the machine makes it more. A server that lets nobody wait refuses ten
#: times as often.
REFUSED_AT_MOST = 1.2
#: Clients that wait for a shorter time than all of them would have to wait in turn, and its share.
IMPATIENT, PATIENCE = 64, 0.9
#: Share of the answers to patient clients that they still get. Requests are answered in their
#: order, so that clients often give up shortly before their turn. Two quiet cores: 0.55.
AT_LEAST_IMPATIENT = 0.4
#: Clients that ask without end whether the server is ready, and how much of their goodput the
#: others keep: all share the processors with the server and the database. They kept 2 % where
#: readiness was answered before all that waits, 70 % since it has a thread of its own.
CROWD, AT_LEAST_BESIDE = 32, 0.1
READY = "/healthz/ready"
PATHS = [
    "/placement/allocation_candidates?resources=VCPU:1,MEMORY_MB:64&limit=10",
    "/placement/resource_providers?name=cn1",
]


def start_server(serve, database_url: str, **environ: str) -> Server:
    """Return a server of one worker that knows 200 hosts."""
    server = serve(OS_PLACEMENT_DATABASE__CONNECTION=database_url, **environ)
    hosts = [report(f"cn{number}") for number in range(200)]
    assert server.post("/scheduler/v1/compute_nodes", hosts)[0] < 300
    return server


def count_outcomes(
    server, clients: int, seconds: float, patience: float = 60, crowd: int = 0
) -> Counter[str]:
    """Return the outcomes of clients of two processes.

    A ``crowd`` in a third one asks for readiness; what it is answered has the path before it.
    """
    counts: Counter[str] = Counter()
    processes = 3 if crowd else 2
    for one in run_in_processes(
        processes, _send_requests, server.url, clients // 2, seconds, patience, crowd
    ):
        counts.update(one)
    return counts


def _send_requests(
    barrier: Barrier,
    which: int,
    url: str,
    clients: int,
    seconds: float,
    patience: float,
    crowd: int,
) -> list[Counter[str]]:
    barrier.wait(120)
    if which < 2:
        return [send_requests(seconds, clients, url, PATHS, patience)]
    outcomes = send_requests(seconds, crowd, url, [READY], patience)
    return [Counter({f"{READY} {outcome}": many for outcome, many in outcomes.items()})]


@pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)
def test_throughput_is_stable_under_fourfold_load(serve, database_url, record_property):
    rate = (
        count_outcomes(start_server(serve, database_url), FEW, SECONDS_TO_COUNT)["200"]
        / SECONDS_TO_COUNT
    )
    # As long as requests wait on this machine where there are three times as many clients.
    timeout = 3 * FEW / rate
    server = serve(
        OS_PLACEMENT_DATABASE__CONNECTION=database_url, OS_API__QUEUE_TIMEOUT=f"{timeout:.4f}"
    )
    count_outcomes(server, FEW, 1)
    answered, refused = Counter[int](), 0
    for load in LOADS * TURNS:
        outcomes = count_outcomes(server, load, SECONDS_OF_A_TURN)
        assert set(outcomes) <= {"200", "503"}  # each of these with Retry-After
        assert outcomes["503"] <= REFUSED_AT_MOST / timeout * SECONDS_OF_A_TURN * load
        answered[load] += outcomes["200"]
        refused += outcomes["503"]
    rates = {load: round(many / SECONDS_OF_A_TURN / TURNS) for load, many in answered.items()}
    LOG.info("answers a second by clients: %s, %s refused", rates, refused)
    record_property(TRIED, f"answers a second by clients: {rates}, {refused} refused")
    assert all(answered[load] for load in LOADS)
    assert answered[LOADS[-1]] >= AT_LEAST * max(answered.values())
    if WHOLE:  # other work while the answers were counted makes the time too long
        assert outcomes["503"]


@pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)
def test_impatient_clients_do_not_stop_a_server(serve, database_url, database, record_property):
    server = start_server(serve, database_url)
    count_outcomes(server, FEW, 1)
    patient = count_outcomes(server, FEW, SECONDS)["200"]
    patience = PATIENCE * IMPATIENT * SECONDS / patient
    outcomes = count_outcomes(server, IMPATIENT, SECONDS, patience)
    assert set(outcomes) <= {"200", "503", "gave up"}
    assert server.get("/healthz")[0] == 200
    assert_invariants(database)
    LOG.info("of %s answers to patient clients: %s", patient, outcomes)
    record_property(
        TRIED,
        f"{IMPATIENT} clients that wait for {patience:.2f} s: {outcomes['200'] / patient:.0%} of "
        f"the answers, {outcomes['gave up']} given up",
    )
    if WHOLE:
        assert outcomes["gave up"]
        assert outcomes["200"] >= AT_LEAST_IMPATIENT * patient


@pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)
def test_readiness_checks_do_not_delay_other_clients(serve, database_url, record_property):
    server = start_server(serve, database_url)
    count_outcomes(server, FEW, 1)
    alone = count_outcomes(server, FEW, SECONDS_TO_COUNT)["200"]
    outcomes = count_outcomes(server, FEW, SECONDS_TO_COUNT, crowd=CROWD)
    LOG.info("of %s answers without a crowd: %s", alone, outcomes)
    record_property(
        TRIED,
        f"{CROWD} clients that ask whether it is ready: {outcomes['200'] / alone:.0%} of the "
        "answers to others",
    )
    assert set(outcomes) == {"200", f"{READY} 200"}
    assert outcomes["200"] >= AT_LEAST_BESIDE * alone
