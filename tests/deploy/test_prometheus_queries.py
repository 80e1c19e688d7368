# SPDX-License-Identifier: Apache-2.0
"""Prometheus evaluates all queries of alerts and dashboard for two servers of a database."""

import json
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from urllib.parse import urlencode
from urllib.request import urlopen

import pytest
import yaml

from placement_sched.db.transaction import Database
from placement_sched.model.clock import utcnow
from placement_sched.operations.prepare import sync
from tests.conftest import make_settings
from tests.deploy import find_program
from tests.deploy.monitoring import ALERT_RULES, read_dashboard_queries
from tests.support.loopback import reserve_port
from tests.support.postgresql import run_postgresql
from tests.support.scheduling import make_report, make_spec
from tests.support.servers import Server, build_environment, start_server, wait_until

pytestmark = pytest.mark.system

#: Panels without data: this test has no failures and no RPC calls (nova/test_service_metrics.py).
PANELS_WITHOUT_DATA = ["Errors", "RPC calls", "RPC time", "RPC waiting"]
HOST_COUNT = 3


@pytest.fixture(scope="module")
def prometheus_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a Prometheus that scraped two servers before and after requests."""
    folder = tmp_path_factory.mktemp("prometheus")
    with ExitStack() as stack:
        postgresql = stack.enter_context(run_postgresql())
        database = Database(make_settings(postgresql.url()))
        sync(database, utcnow)
        database.dispose()
        variables = build_environment(
            OS_PLACEMENT_DATABASE__CONNECTION=postgresql.url(),
            OS_SCHEDULER__CAPACITY_FLAVORS="m1.small",
        )
        servers = [
            stack.enter_context(
                start_server(folder=folder, log=folder / f"{number}.log", variables=variables)
            )
            for number in range(2)
        ]
        hosts = [make_report(f"cn{number}") for number in range(HOST_COUNT)]
        servers[0].request_json("POST", "/scheduler/v1/compute_nodes", hosts)
        servers[0].request_json("POST", "/compute/v2.1/flavors", SMALL_FLAVOR)
        # The servers compute figures of the cloud at the first scrape and keep them for a minute.
        url = stack.enter_context(run_prometheus(folder, servers))
        assert wait_until(
            lambda: (
                send_counted_requests(servers)
                and all(has_numeric_series(url, query) for query in PANEL_QUERIES)
            )
        )
        yield url


SMALL_FLAVOR = {"flavor": {"name": "m1.small", "ram": 1024, "vcpus": 1, "disk": 1}}
#: A request that is too large for every host.
IMPOSSIBLE_REQUEST = make_spec(flavor={"name": "big", "vcpus": 1000, "memory_mb": 1, "root_gb": 0})


def send_counted_requests(servers: list[Server]) -> bool:
    """Send the requests that the dashboard counts to each server, and return True."""
    version = {"OpenStack-API-Version": "placement 1.39"}
    for number, server in enumerate(servers):
        server.post("/scheduler/v1/select_destinations", {"request_spec": make_spec()})
        server.post("/scheduler/v1/select_destinations", {"request_spec": IMPOSSIBLE_REQUEST})
        server.get("/placement/allocation_candidates?resources=VCPU:1", **version)
        too_much = {
            "allocations": {make_report("cn1")["uuid"]: {"resources": {"VCPU": 15}}},
            "project_id": "p",
            "user_id": "u",
            "consumer_generation": None,
            "consumer_type": "INSTANCE",
        }
        for consumer in range(2):
            uuid = f"00000000-0000-0000-{number:04}-{consumer:012}"
            server.send("PUT", f"/placement/allocations/{uuid}", too_much, **version)
    return True


@contextmanager
def run_prometheus(folder: Path, servers: list[Server]) -> Iterator[str]:
    """Run Prometheus on the loopback address and yield its URL."""
    program = find_program("prometheus")
    targets = [server.url.removeprefix("http://") for server in servers]
    config = {
        "global": {"scrape_interval": "1s"},
        "scrape_configs": [
            {"job_name": "placement-sched", "static_configs": [{"targets": targets}]}
        ],
    }
    (folder / "prometheus.yml").write_text(yaml.safe_dump(config))
    with reserve_port() as held, (folder / "prometheus.log").open("w") as log:
        address = f"127.0.0.1:{held.getsockname()[1]}"
        process = subprocess.Popen(
            [
                *(program, f"--config.file={folder}/prometheus.yml"),
                *(f"--storage.tsdb.path={folder}/data", f"--web.listen-address={address}"),
            ],
            stdout=log,
            stderr=subprocess.STDOUT,
        )
        try:
            yield f"http://{address}"
        finally:
            process.terminate()
            process.wait(timeout=60)


def query_series(url: str, expression: str) -> list[dict]:
    expression = expression.replace("$__rate_interval", "1m").replace("$instance", ".*")
    try:
        query = urlencode({"query": expression})
        with urlopen(f"{url}/api/v1/query?{query}", timeout=60) as response:
            response_body = json.load(response)
    except OSError:
        return []
    assert response_body["status"] == "success", response_body
    return response_body["data"]["result"]


def has_numeric_series(url: str, expression: str) -> bool:
    """Return whether a query has a number other than the rate of nothing."""
    return any(series["value"][1] != "NaN" for series in query_series(url, expression))


PANEL_QUERIES = [
    expression
    for title, expression, _ in read_dashboard_queries()
    if title not in PANELS_WITHOUT_DATA
]


def test_every_panel_has_data_after_traffic(prometheus_url):
    empty = [
        title
        for title, query, _ in read_dashboard_queries()
        if not has_numeric_series(prometheus_url, query)
    ]
    assert empty == PANELS_WITHOUT_DATA


def test_only_alerts_about_lost_claims_and_no_valid_host_fire(prometheus_url):
    fired = {rule["alert"] for rule in ALERT_RULES if query_series(prometheus_url, rule["expr"])}
    # A request may be slow if the machine is busy.
    possible = {"PlacementSchedSlow"}
    assert fired - possible == {
        "PlacementSchedLostClaims",
        "PlacementSchedNoValidHost",
        "PlacementSchedNoValidHostAtAnyStage",
    }


def test_shared_metrics_of_two_servers_are_counted_once(prometheus_url):
    (hosts,) = [expression for title, expression, _ in read_dashboard_queries() if title == "Hosts"]
    counted = {
        series["metric"]["state"]: int(series["value"][1])
        for series in query_series(prometheus_url, hosts)
    }
    assert counted == {"up": HOST_COUNT, "down": 0, "disabled": 0}
    both = query_series(prometheus_url, 'placement_sched_hosts{state="up"}')
    assert [int(series["value"][1]) for series in both] == [HOST_COUNT, HOST_COUNT]
