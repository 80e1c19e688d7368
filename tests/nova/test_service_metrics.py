# SPDX-License-Identifier: Apache-2.0
"""``/metrics`` of ``placement-sched nova-scheduler`` during RPC calls."""

import json
import os
import re
import signal
from collections.abc import Iterator
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from tests.deploy import DEPLOY
from tests.nova.scheduling import Service, Site, hosts_of, wait_until_true
from tests.support.scheduling import instance

pytestmark = pytest.mark.system

Samples = dict[str, float]


@pytest.fixture
def nova_site(tmp_path, bus, sqlite_url, make_app) -> Iterator[Site]:
    site = Site(tmp_path, bus, sqlite_url, make_app)
    site.add_host("cn1")
    yield site
    site.close()


def start_service(site: Site, workers: int = 2) -> tuple[Service, str]:
    service = site.start(workers=workers, scheduler__metrics_listen="127.0.0.1:0")
    (line,) = service.lines(", metrics at ")
    return service, f"http://{line.rpartition(' ')[2]}"


def get_url(url: str) -> tuple[int, str]:
    try:
        with urlopen(url, timeout=60) as answer:
            return answer.status, answer.read().decode()
    except HTTPError as refused:
        return refused.code, refused.read().decode()


def scrape_metrics(url: str) -> Samples:
    status, text = get_url(f"{url}/metrics")
    assert status == 200
    return {
        f"{row.name.removeprefix('placement_sched_')}{sorted(row.labels.values())}": row.value
        for family in text_string_to_metric_families(text)
        for row in family.samples
    }


def test_calls_are_counted_by_outcome_over_all_workers(nova_site):
    _, url = start_service(nova_site)
    for number in range(1, 5):
        assert hosts_of(nova_site.conductor.select(instance(number)))
    with pytest.raises(Exception, match="No valid host"):
        nova_site.conductor.select(instance(9), memory_mb=10**6)
    with pytest.raises(Exception, match="spec_obj must be"):
        nova_site.conductor.call("select_destinations", spec_obj="nothing")
    with pytest.raises(Exception, match="run_instance"):
        nova_site.conductor.call("run_instance")
    samples = scrape_metrics(url)
    assert samples["rpc_calls_total['answered', 'select_destinations']"] == 4
    assert samples["rpc_calls_total['no_valid_host', 'select_destinations']"] == 1
    assert samples["rpc_calls_total['refused', 'select_destinations']"] == 1
    assert samples["rpc_calls_total['other', 'refused']"] == 1
    assert samples["rpc_duration_seconds_count['select_destinations']"] == 6
    assert samples["claims_total['nova-scheduler', 'won']"] == 4
    assert samples["scheduler_decisions_total['', '', 'default', 'selected']"] == 4
    (rejections,) = [samples[key] for key in samples if "no_valid_host', 'resources'" in key]
    assert rejections == 1
    assert samples["scheduler_stage_duration_seconds_count['claim']"] == 4


@pytest.mark.exhaustive
def test_metrics_of_a_killed_worker_are_kept(nova_site):
    service, url = start_service(nova_site, workers=1)
    assert hosts_of(nova_site.conductor.select(instance(1)))
    for pid in service.children():
        os.kill(pid, signal.SIGKILL)
    service.wait_for_line("killed by SIGKILL", 2)
    assert hosts_of(nova_site.conductor.select(instance(2)))
    # The first call is counted twice if the worker died before it acknowledged the message.
    assert scrape_metrics(url)["rpc_calls_total['answered', 'select_destinations']"] in {2, 3}


def test_unrecordable_nova_objects_are_counted(nova_site):
    nova_site.nova.add_host("cn2", free_disk_gb=None)
    _, url = start_service(nova_site, workers=1)
    wait_until_true(lambda: scrape_metrics(url)["nova_left_out[]"] == 1)


@pytest.mark.exhaustive
def test_queued_requests_are_shown(nova_site):
    service, url = start_service(nova_site, workers=1)
    assert scrape_metrics(url)["rpc_waiting[]"] == 0
    stopped = service.children()
    for one in stopped:
        os.kill(one, signal.SIGSTOP)
    try:
        begun = [nova_site.conductor.begin_select(instance(number)) for number in range(1, 25)]
        # The stopped worker has some of the requests.
        wait_until_true(lambda: scrape_metrics(url)["rpc_waiting[]"] > 10)
    finally:
        for one in stopped:
            os.kill(one, signal.SIGCONT)
    assert all(one.result(timeout=120) for one in begun[:8])


def test_health_reports_the_service(nova_site):
    service, url = start_service(nova_site, workers=1)
    assert get_url(f"{url}/healthz") == (200, '{"status":"ok"}')
    assert get_url(f"{url}/healthz/ready") == (200, '{"status":"ready"}')
    assert service.end_with_signal() == 0


def test_alerts_and_dashboard_query_exported_metrics(nova_site):
    _, url = start_service(nova_site, workers=1)
    assert hosts_of(nova_site.conductor.select(instance(1)))
    shown = {key.partition("[")[0] for key in scrape_metrics(url)}
    text = (DEPLOY / "prometheus/rules.yml").read_text()
    assert yaml.safe_load(text)
    board = json.dumps(json.loads((DEPLOY / "grafana/placement-sched.json").read_text()))
    queried = set(re.findall(r"placement_sched_(rpc_\w+)", text + board))
    assert queried
    assert queried <= shown
