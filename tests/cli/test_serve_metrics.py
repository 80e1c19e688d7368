# SPDX-License-Identifier: Apache-2.0
"""``/metrics`` of a server with several workers: the sum of all, also of those that died."""

from concurrent.futures import ThreadPoolExecutor

import psutil
import pytest
from prometheus_client.parser import text_string_to_metric_families

pytestmark = pytest.mark.system

REQUESTS = 60


def counted(server) -> float:
    """Return how often the list of traits was answered, as whichever worker is asked tells it."""
    status, _, body = server.get("/metrics", token="")
    assert status == 200
    return sum(
        sample.value
        for family in text_string_to_metric_families(body.decode())
        for sample in family.samples
        if sample.name == "placement_sched_requests_total" and sample.labels["route"] == "/traits"
    )


def ask_often(server) -> None:
    with ThreadPoolExecutor(8) as pool:
        answers = pool.map(lambda _: server.get("/placement/traits")[0], range(REQUESTS))
        assert set(answers) == {404}  # the oldest microversion knows no traits


def workers(server) -> list[psutil.Process]:
    return psutil.Process(server.process.pid).children(recursive=True)


def test_every_worker_tells_the_sum_of_all(serve):
    server = serve("--workers", "3")
    ask_often(server)
    assert {counted(server) for _ in range(12)} == {REQUESTS}


def test_what_a_killed_worker_counted_stays(serve):
    server = serve("--workers", "2")
    ask_often(server)
    killed = workers(server)[-1]
    killed.kill()
    psutil.wait_procs([killed], timeout=60)
    server.wait_for("/metrics", 200)
    assert {counted(server) for _ in range(8)} == {REQUESTS}


def test_files_of_the_workers_are_gone_at_the_end(serve, tmp_path):
    server = serve("--workers", "2", TMPDIR=str(tmp_path))
    ask_often(server)
    assert list(tmp_path.glob("placement_sched_*/counter_*.db"))
    assert server.stop() == 0
    assert list(tmp_path.glob("placement_sched_*")) == []


def test_directory_of_the_environment_is_used(serve, tmp_path):
    directory = tmp_path / "metrics"
    directory.mkdir()
    server = serve("--workers", "2", PROMETHEUS_MULTIPROC_DIR=str(directory))
    ask_often(server)
    assert list(directory.glob("counter_*.db"))
    assert counted(server) == REQUESTS


def test_file_of_a_worker_that_has_written_nothing_yet_is_no_fault(serve, tmp_path):
    directory = tmp_path / "metrics"
    directory.mkdir()
    server = serve("--workers", "1", PROMETHEUS_MULTIPROC_DIR=str(directory))
    (directory / "counter_1.db").touch()
    ask_often(server)
    assert counted(server) == REQUESTS
