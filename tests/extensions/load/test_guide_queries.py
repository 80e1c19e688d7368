# SPDX-License-Identifier: Apache-2.0
"""The queries of the guide, with Debian's Prometheus."""

import re

import pytest

from placement_sched.errors import ServiceFailed
from placement_sched.extensions.load.collection import collect_load
from placement_sched.extensions.load.options import list_queries
from placement_sched.extensions.load.prometheus import Prometheus
from tests.extensions.load.prometheus_process import run_prometheus_with
from tests.support.api_clouds import NODES_PATH, place_instance_on_host
from tests.support.repository import ROOT
from tests.support.scheduling import make_report, make_uuid

pytestmark = pytest.mark.system

#: Series as the exporters name them. ``+`` is the rate per second of a counter.
EXPOSITION = f"""
node_uname_info{{instance="10.0.0.1:9100",job="node",nodename="cn1",sysname="Linux"}} 1
node_uname_info{{instance="10.0.0.2:9100",job="node",nodename="cn2",sysname="Linux"}} 1
node_uname_info{{instance="10.0.0.3:9100",job="node",nodename="cn3",sysname="Linux"}} 1 stopped
node_cpu_seconds_total{{cpu="0",instance="10.0.0.1:9100",job="node",mode="idle"}} 5000 +0.75
node_cpu_seconds_total{{cpu="0",instance="10.0.0.1:9100",job="node",mode="user"}} 5000 +0.25
node_cpu_seconds_total{{cpu="1",instance="10.0.0.1:9100",job="node",mode="idle"}} 5000 +0.25
node_cpu_seconds_total{{cpu="0",instance="10.0.0.2:9100",job="node",mode="idle"}} 5000 +0.125 reset
node_cpu_seconds_total{{cpu="0",instance="10.0.0.3:9100",job="node",mode="idle"}} 50 +0.5 stopped
node_memory_MemAvailable_bytes{{instance="10.0.0.1:9100",job="node"}} 16000000000
node_memory_MemTotal_bytes{{instance="10.0.0.1:9100",job="node"}} 64000000000
node_memory_MemAvailable_bytes{{instance="10.0.0.2:9100",job="node"}} 0
node_memory_MemTotal_bytes{{instance="10.0.0.2:9100",job="node"}} 0
node_pressure_cpu_waiting_seconds_total{{instance="10.0.0.1:9100",job="node"}} 7 +0.5
node_pressure_memory_waiting_seconds_total{{instance="10.0.0.1:9100",job="node"}} 7 +0.25
node_pressure_io_waiting_seconds_total{{instance="10.0.0.1:9100",job="node"}} 7 +0
libvirt_domain_openstack_info{{domain="instance-1",instance="cn1:9177",\
instance_id="{make_uuid(1)}",instance_name="web",project_name="p"}} 1
libvirt_domain_info_cpu_time_seconds_total{{domain="instance-1",instance="cn1:9177"}} 9 +1.5
libvirt_domain_info_virtual_cpus{{domain="instance-1",instance="cn1:9177"}} 2
libvirt_domain_memory_stats_rss_bytes{{domain="instance-1",instance="cn1:9177"}} 1000000
libvirt_domain_info_maximum_memory_bytes{{domain="instance-1",instance="cn1:9177"}} 4000000
ceilometer_cpu{{counter="cpu",resource="{make_uuid(1)}",unit="ns"}} 9000000000 +1500000000
ceilometer_memory_usage{{counter="memory.usage",resource="{make_uuid(1)}",unit="MB"}} 256
ceilometer_memory{{counter="memory",resource="{make_uuid(1)}",unit="MB"}} 1024
"""
#: The states and values of cn1 and cn2, by the heading of the guide. cn3's exporter stopped.
EXPECTED = {
    "node_exporter": {
        "cpu": {"cn1": ("ok", 0.5), "cn2": ("ok", 0.875), "cn3": ("missing", None)},
        "memory": {"cn1": ("ok", 0.75), "cn2": ("not_a_number", None), "cn3": ("missing", None)},
    },
    "Pressure (PSI)": {
        name: {"cn1": ("ok", value), "cn2": ("missing", None), "cn3": ("missing", None)}
        for name, value in (("cpu_pressure", 0.5), ("memory_pressure", 0.25), ("io_pressure", 0.0))
    },
    "libvirt exporters": {
        "cpu": {make_uuid(1): ("ok", 0.75)},
        "memory": {make_uuid(1): ("ok", 0.25)},
    },
    "ceilometer": {"cpu": {make_uuid(1): ("ok", 1.5)}, "memory": {make_uuid(1): ("ok", 0.25)}},
}


def read_guide() -> dict[str, dict[str, object]]:
    """Return the options of [load] by the headings of the guide."""
    options: dict[str, dict[str, object]] = {}
    heading, previous = "", ""
    for line in (ROOT / "doc" / "source" / "load.rst").read_text().splitlines():
        if re.fullmatch(r"([-=])\1+", line):
            heading = previous
        if match := re.fullmatch(r" +(\w+) = (.+)", line):
            name, value = match.groups()
            section = options.setdefault(heading, {})
            if name.endswith("_queries"):
                section.setdefault(name, []).append(value)
            else:
                section[name] = value
        previous = line
    return options


@pytest.fixture(scope="module")
def prometheus_url(tmp_path_factory):
    with run_prometheus_with(EXPOSITION, tmp_path_factory.mktemp("prometheus")) as url:
        yield url


@pytest.fixture
def prometheus(prometheus_url):
    """The address that ``with_load`` uses."""

    class Service:
        url = prometheus_url

    return Service


@pytest.fixture
def app(sqlite_app):
    sqlite_app.post_json(NODES_PATH, [make_report(name) for name in ("cn1", "cn2", "cn3")])
    place_instance_on_host(sqlite_app, 1, "cn1")
    return sqlite_app


def test_guide_has_the_expected_headings():
    assert read_guide().keys() == {"Start", *EXPECTED}
    (start,) = read_guide()["Start"]["host_queries"]
    assert start == read_guide()["node_exporter"]["host_queries"][0]


@pytest.mark.parametrize("heading", EXPECTED)
def test_query_of_the_guide_has_the_value_of_direct_arithmetic(
    app, sqlite_settings, make_app, with_load, heading
):
    options = {"host_queries": [], **read_guide()[heading]}
    settings = with_load(sqlite_settings, **options)
    services = app.app.services
    assert collect_load(services.database, settings, services.clock) == {}
    reader = make_app(settings.with_overrides({"load.prometheus_url": None}))
    states = {query.name: {} for query in list_queries(settings)}
    for host in reader.get("/scheduler/v1/load").json["hosts"]:
        document = reader.get(f"/scheduler/v1/load/{host['host']}").json
        subjects = [(host["host"], document["values"])]
        subjects += [(server["uuid"], server["values"]) for server in document["servers"]]
        for subject, values in subjects:
            for value in values:
                states[value["query"]][subject] = value["state"], value["value"]
    expected = {
        query: {
            subject: (state, None if value is None else pytest.approx(value, abs=1e-9))
            for subject, (state, value) in subjects.items()
        }
        for query, subjects in EXPECTED[heading].items()
    }
    assert states == expected


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("sum(", "Prometheus: invalid parameter .*parse error"),
        ("node_uname_info[5m]", "the result is a matrix"),
        (
            "node_cpu_seconds_total * on (job) node_uname_info",
            "Prometheus: .*many-to-many matching not allowed",
        ),
    ],
)
def test_wrong_query_has_the_message_of_prometheus(sqlite_settings, with_load, query, words):
    with pytest.raises(ServiceFailed, match=words):
        Prometheus(with_load(sqlite_settings).load).query(query)


def test_label_is_changed_as_in_the_guide(sqlite_settings, with_load):
    guide = (ROOT / "doc" / "source" / "load.rst").read_text()
    (template,) = re.findall(r"label_replace\(QUERY, .+\)", guide)
    series = 'label_replace(vector(1), "nodename", "cn1.example.org", "", "")'
    query = template.replace("QUERY", series)
    (result,) = Prometheus(with_load(sqlite_settings).load).query(query)
    assert result.labels == {"nodename": "cn1"}


def test_series_of_each_cpu_are_several_series(app, sqlite_settings, make_app, with_load):
    query = 'cpu: label_replace(node_cpu_seconds_total{mode="idle"} > 0, "nodename", "cn1", "", "")'
    settings = with_load(sqlite_settings, host_queries=[query])
    services = app.app.services
    collect_load(services.database, settings, services.clock)
    reader = make_app(settings.with_overrides({"load.prometheus_url": None}))
    (value,) = reader.get("/scheduler/v1/load/cn1").json["values"]
    assert (value["state"], value["value"]) == ("several_series", None)
