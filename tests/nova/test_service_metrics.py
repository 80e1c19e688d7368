# SPDX-License-Identifier: Apache-2.0
"""``/metrics`` of ``placement-sched nova-scheduler`` during RPC calls."""

import json
import os
import re
import signal
from collections import Counter
from urllib.request import urlopen
from uuid import uuid4

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from tests.deploy import DEPLOY_FOLDER
from tests.nova.scheduling import list_selected_hosts, wait_until_true
from tests.support.scheduling import make_uuid

pytestmark = pytest.mark.system


def read_response_text(url: str) -> str:
    with urlopen(url, timeout=60) as result:
        return result.read().decode()


def scrape_metrics(url: str) -> Counter[str]:
    return Counter(
        {
            f"{row.name.removeprefix('placement_sched_')}{sorted(row.labels.values())}": row.value
            for family in text_string_to_metric_families(read_response_text(f"{url}/metrics"))
            for row in family.samples
        }
    )


def test_calls_are_counted_by_outcome_over_all_workers(shared_scheduler):
    before = scrape_metrics(shared_scheduler.metrics_url)
    conductor = shared_scheduler.deployment.conductor
    for _ in range(4):
        assert list_selected_hosts(conductor.select_destinations(str(uuid4())))
    with pytest.raises(Exception, match="No valid host"):
        conductor.select_destinations(str(uuid4()), memory_mb=10**6)
    with pytest.raises(Exception, match="spec_obj must be"):
        conductor.call("select_destinations", spec_obj="nothing")
    with pytest.raises(Exception, match="run_instance"):
        conductor.call("run_instance")
    samples = scrape_metrics(shared_scheduler.metrics_url)
    samples.subtract(before)
    assert samples["rpc_calls_total['select_destinations', 'succeeded']"] == 4
    assert samples["rpc_calls_total['no_valid_host', 'select_destinations']"] == 1
    assert samples["rpc_calls_total['rejected', 'select_destinations']"] == 1
    assert samples["rpc_calls_total['other', 'rejected']"] == 1
    assert samples["rpc_duration_seconds_count['select_destinations']"] == 6
    assert samples["claims_total['nova-scheduler', 'won']"] == 4
    assert samples["scheduler_decisions_total['', '', 'default', 'selected']"] == 4
    (rejections,) = [samples[key] for key in samples if "no_valid_host', 'resources'" in key]
    assert rejections == 1
    assert samples["scheduler_no_valid_host_total['MEMORY_MB', 'capacity']"] == 1
    assert samples["scheduler_stage_duration_seconds_count['claim']"] == 4


def start_scheduler_with_metrics(deployment):
    service = deployment.start_scheduler(workers=1, scheduler__metrics_listen="127.0.0.1:0")
    (line,) = service.read_log_lines(", metrics at ")
    return service, f"http://{line.rpartition(' ')[2]}"


@pytest.mark.exhaustive
def test_metrics_of_a_killed_worker_are_kept(two_host_nova):
    service, url = start_scheduler_with_metrics(two_host_nova)
    assert list_selected_hosts(two_host_nova.conductor.select_destinations(make_uuid(1)))
    for pid in service.list_worker_pids():
        os.kill(pid, signal.SIGKILL)
    service.wait_for_log_line("killed by SIGKILL", 2)
    assert list_selected_hosts(two_host_nova.conductor.select_destinations(make_uuid(2)))
    # The first call is counted twice if the worker died before it acknowledged the message.
    assert scrape_metrics(url)["rpc_calls_total['select_destinations', 'succeeded']"] in {2, 3}


@pytest.mark.exhaustive
def test_queued_requests_are_shown_in_the_metrics(two_host_nova):
    service, url = start_scheduler_with_metrics(two_host_nova)
    assert scrape_metrics(url)["rpc_waiting[]"] == 0
    stopped = service.list_worker_pids()
    for pid in stopped:
        os.kill(pid, signal.SIGSTOP)
    try:
        begun = [
            two_host_nova.conductor.begin_selection(make_uuid(number)) for number in range(1, 25)
        ]
        # The stopped worker has some of the requests.
        wait_until_true(lambda: scrape_metrics(url)["rpc_waiting[]"] > 10)
    finally:
        for pid in stopped:
            os.kill(pid, signal.SIGCONT)
    assert all(result.result(timeout=120) for result in begun[:8])


def test_unrecordable_nova_objects_are_counted(shared_scheduler):
    wait_until_true(lambda: scrape_metrics(shared_scheduler.metrics_url)["nova_left_out[]"] == 1)


def test_healthz_reports_the_scheduler_service(shared_scheduler):
    assert read_response_text(f"{shared_scheduler.metrics_url}/healthz") == '{"status":"ok"}'
    assert (
        read_response_text(f"{shared_scheduler.metrics_url}/healthz/ready") == '{"status":"ready"}'
    )


def test_alerts_and_dashboard_query_exported_metrics(shared_scheduler):
    assert list_selected_hosts(
        shared_scheduler.deployment.conductor.select_destinations(str(uuid4()))
    )
    shown = {key.partition("[")[0] for key in scrape_metrics(shared_scheduler.metrics_url)}
    text = (DEPLOY_FOLDER / "prometheus/rules.yml").read_text()
    assert yaml.safe_load(text)
    board = json.dumps(json.loads((DEPLOY_FOLDER / "grafana/placement-sched.json").read_text()))
    queried = set(re.findall(r"placement_sched_(rpc_\w+)", text + board))
    assert queried
    assert queried <= shown
