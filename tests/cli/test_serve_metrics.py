# SPDX-License-Identifier: Apache-2.0
"""``/metrics`` of a server with several workers, including workers that ended."""

from concurrent.futures import ThreadPoolExecutor

import psutil
import pytest
from prometheus_client.parser import text_string_to_metric_families

pytestmark = pytest.mark.system

REQUEST_COUNT = 60


def read_request_count(server) -> float:
    """Return the number of requests for traits, as any worker reports it."""
    status, _, body = server.get("/metrics", token="")
    assert status == 200
    return sum(
        sample.value
        for family in text_string_to_metric_families(body.decode())
        for sample in family.samples
        if sample.name == "placement_sched_requests_total" and sample.labels["route"] == "/traits"
    )


def send_many_requests(server) -> None:
    with ThreadPoolExecutor(8) as pool:
        responses = pool.map(lambda _: server.get("/placement/traits")[0], range(REQUEST_COUNT))
        assert set(responses) == {404}  # the oldest microversion has no traits


def list_workers(server) -> list[psutil.Process]:
    return psutil.Process(server.process.pid).children(recursive=True)


def test_each_worker_reports_metrics_of_all_workers_until_the_server_ends(serve, tmp_path):
    server = serve("--workers", "3", TMPDIR=str(tmp_path))
    send_many_requests(server)
    assert {read_request_count(server) for _ in range(12)} == {REQUEST_COUNT}
    assert list(tmp_path.glob("placement_sched_*/counter_*.db"))
    assert server.stop() == 0
    assert list(tmp_path.glob("placement_sched_*")) == []


def test_metrics_include_requests_of_a_killed_worker(serve):
    server = serve("--workers", "2")
    send_many_requests(server)
    killed = list_workers(server)[-1]
    killed.kill()
    psutil.wait_procs([killed], timeout=60)
    server.wait_for("/metrics", 200)
    assert {read_request_count(server) for _ in range(8)} == {REQUEST_COUNT}


def test_workers_write_metrics_to_the_directory_of_prometheus_multiproc_dir(serve, tmp_path):
    directory = tmp_path / "metrics"
    directory.mkdir()
    server = serve("--workers", "2", PROMETHEUS_MULTIPROC_DIR=str(directory))
    (directory / "counter_1.db").touch()  # of a worker that has not written yet
    send_many_requests(server)
    assert len(list(directory.glob("counter_*.db"))) > 1
    assert read_request_count(server) == REQUEST_COUNT
