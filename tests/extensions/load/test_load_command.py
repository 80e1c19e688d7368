# SPDX-License-Identifier: Apache-2.0
"""The commands of load, on a database and a server."""

import json
import re
from datetime import UTC, datetime

import pytest

from placement_sched.extensions.load.collection import collect_load
from placement_sched.model.clock import utcnow
from tests.extensions.load.fake_prometheus import PARSE_ERROR, build_vector
from tests.support.api_clouds import NODES_PATH, place_instance_on_host
from tests.support.loopback import serve_application
from tests.support.scheduling import make_report, make_uuid


@pytest.fixture
def run_load(run_cli, sqlite_app, prometheus, tmp_path, monkeypatch):
    """Return a function that runs a command of load, on two hosts."""
    monkeypatch.setenv("COLUMNS", "120")
    sqlite_app.post_json(NODES_PATH, [make_report("cn1"), make_report("cn2.example.org")])
    place_instance_on_host(sqlite_app, 7, "cn1")
    file = tmp_path / "load.conf"

    lines_of_load = ("host_queries = cpu: cpu", "server_queries = ram: ram")

    def run(*arguments, lines=lines_of_load, url=f"prometheus_url = {prometheus.url}"):
        file.write_text("\n".join(["[load]", url, *lines, ""]))
        return run_cli("load", *arguments, "--config-file", str(file))

    return run


@pytest.fixture
def collect(run_load, sqlite_app, sqlite_settings, with_load):
    """Return a function that stores the values, as a server does."""
    settings = with_load(sqlite_settings, server_queries=["ram: ram"])
    return lambda: collect_load(sqlite_app.app.services.database, settings, utcnow)


def set_values(prometheus, query, *pairs, **hosts):
    time = datetime.now(UTC).timestamp()
    prometheus.responses[query] = build_vector(*pairs, time=time, **hosts)


def test_check_compares_labels_with_hosts(run_load, prometheus):
    set_values(prometheus, "cpu", ({"instance": "x"}, 1), cn1=1.25, cn2=0.5, other=0.1)
    set_values(prometheus, "ram", ({"instance_id": make_uuid(7)}, "NaN"))
    status, out, err = run_load("check")
    assert (status, err) == (0, "")
    # Without the ages
    rows = [line.split()[:-4] for line in out.splitlines() if line.startswith(("cpu", "ram"))]
    assert rows == [
        ["cpu", "host", "ok", "4", "1", "2", "1", "1"],
        ["ram", "server", "ok", "1", "1", "0", "0", "0"],
    ]
    cpu = "[load] host_queries, cpu"
    assert out.splitlines()[-5:] == [
        f"{cpu}: 1 series without the label nodename, see [load] host_label. Labels: instance",
        f"{cpu}: 2 labels nodename without a host: cn2 (similar to host cn2.example.org), other",
        f"{cpu}: 1 host without a series: cn2.example.org",
        f"{cpu}: 1 value outside 0 to 1",
        "[load] server_queries, ram: 1 value NaN or infinite",
    ]


def test_check_changes_no_stored_value(run_load, collect, prometheus):
    """An operator tries another query of the same name."""
    set_values(prometheus, "cpu", cn1=0.25)
    collect()
    stored = run_load("list", "-f", "value", "-c", "Value")[1]
    set_values(prometheus, "new", cn1=0.75)
    run_load("check", lines=["host_queries = cpu: new"])
    assert run_load("list", "-f", "value", "-c", "Value")[1] == stored == "0.25\nNone\n"


def test_check_reports_the_error_of_prometheus_with_the_option(run_load, prometheus):
    prometheus.failure = "400 Bad Request", PARSE_ERROR
    status, out, err = run_load("check", lines=["host_queries = cpu: sum("])
    assert status == 2
    message = f"[load] host_queries, cpu: Prometheus: {PARSE_ERROR['error']}"
    assert message in out.splitlines()
    assert err == f"placement-sched: {message}\n"


def test_check_of_several_failures_counts_the_others(run_load, prometheus):
    prometheus.failure = "502 Bad Gateway", b""
    status, _, err = run_load("check")
    assert status == 2
    assert err.endswith("to GET /api/v1/query, and 1 more failed\n")


def test_check_without_configuration_says_what_is_missing(run_load, prometheus):
    status, out, _ = run_load("check", lines=[])
    assert (status, out) == (0, "[load] has no host_queries: no load is collected\n")
    status, out, _ = run_load("check", url="")
    assert (status, prometheus.seen) == (0, [])
    lines = out.splitlines()
    assert lines[0] == "[load] prometheus_url is not set: no load is collected"
    assert "[load] host_queries, cpu: it was not sent yet" in lines


def test_check_shows_several_series_and_an_empty_result(run_load, prometheus):
    set_values(prometheus, "cpu", ({"nodename": "cn1", "cpu": "0"}, 0.1), cn1=0.2)
    status, out, _ = run_load("check")
    assert status == 0
    assert "1 host with several series: aggregate them in the query" in out
    assert "[load] server_queries, ram: Prometheus has no series for it" in out


def test_check_of_a_server_shows_its_last_collection(
    collect, run_main, make_app, sqlite_settings, with_load, prometheus
):
    set_values(prometheus, "cpu", cn1=0.5)
    collect()
    request_count = len(prometheus.seen)
    app = make_app(with_load(sqlite_settings, prometheus_url=None))
    with serve_application(app.app) as url:
        status, out, err = run_main("load", "check", "--url", url, "-f", "json")
    assert (status, err, len(prometheus.seen)) == (0, "", request_count)
    document = json.loads(out)
    (query,) = document["queries"]
    assert (query["result"]["matched"], query["result"]["missing_names"]) == (
        1,
        ["cn2.example.org"],
    )
    # Programs that check the queries do not need the values of all hosts.
    assert "hosts" not in document


def test_list_shows_values_of_hosts(run_load, collect, prometheus):
    set_values(prometheus, "cpu", cn1=0.25)
    collect()
    status, out, _ = run_load("list", "-f", "value", "-c", "Host", "-c", "Query", "-c", "Value")
    assert (status, out) == (0, "cn1 cpu 0.25\ncn2.example.org cpu None\n")
    assert run_load("list", "--query", "cpu", "-f", "value", "-c", "State")[1] == "ok\nmissing\n"
    status, _, err = run_load("list", "--query", "cpus")
    assert status == 2
    assert "[load] host_queries has no query 'cpus'. Did you mean 'cpu'?" in err
    assert "no load is collected" in run_load("list", lines=[])[1]


def test_show_has_the_values_of_host_and_servers(run_load, collect, prometheus):
    set_values(prometheus, "cpu", cn1=0.25)
    set_values(prometheus, "ram", ({"instance_id": make_uuid(7)}, 3.5))
    collect()
    status, out, _ = run_load("show", "cn1")
    assert status == 0
    rows = [line.split() for line in out.splitlines()[2:]]
    assert [row[:-2] for row in rows] == [
        ["-", "cpu", "ok", "0.250", "0.250"],
        [make_uuid(7), "ram", "ok", "3.500", "3.500"],
    ]
    assert {row[-1] for row in rows} == {"s"}
    document = json.loads(run_load("show", "cn1", "-f", "json")[1])
    assert document["servers"][0]["values"][0]["value"] == 3.5
    assert run_load("show", "cn1", lines=[])[1] == "[load] has no queries\n"
    status, _, err = run_load("show", "cn2")
    assert status == 1
    assert re.search("there is no host 'cn2'", err)
