# SPDX-License-Identifier: Apache-2.0
"""Requests for routed networks and remote-managed ports, with a fake neutron."""

from urllib.parse import parse_qs

import pytest

from placement_sched.config.conf import read_files
from placement_sched.config.settings import Settings
from placement_sched.scheduler.plugins import make_full_conf
from tests.scheduler.providers import add_provider, change_provider
from tests.support.clouds import uuid_of
from tests.support.neutron import NOWHERE, run_neutron
from tests.support.scheduling import instance, report, spec
from tests.support.statements import record_statements

SOME = "aaaaaaaa-0000-4000-8000-00000000000"
NET, FLAT, PORT, SUBNET_1, SUBNET_2, SEGMENT_1, SEGMENT_2 = (
    f"{SOME}{number}" for number in range(1, 8)
)
AGG_1, AGG_2 = "cccccccc-0000-4000-8000-000000000001", "cccccccc-0000-4000-8000-000000000002"
SWITCH = "scheduler.query_placement_for_routed_network_aggregates"


@pytest.fixture
def fake_neutron():
    """A network of two racks and a network without segments."""
    with run_neutron() as neutron:
        neutron.add_subnet(SUBNET_1, NET, SEGMENT_1)
        neutron.add_subnet(SUBNET_2, NET, SEGMENT_2)
        neutron.add_subnet(FLAT, FLAT)
        neutron.add_port(PORT, NET, SUBNET_2)
        yield neutron


@pytest.fixture
def make_cloud(database_url, make_app, tmp_path):
    """Return a function that creates a cloud with a neutron: cn1 in rack 1, cn2 in rack 2."""

    def build_cloud(neutron: str | None, *lines: str):
        file = tmp_path / "a.conf"
        request = f"[neutron]\nendpoint_override = {neutron}\nhttp_retries = 0\n" if neutron else ""
        options = "\n".join(["[scheduler]", f"{SWITCH.partition('.')[2]} = true", *lines])
        file.write_text(f"[placement_database]\nconnection = {database_url}\n{request}{options}\n")
        app = make_app(Settings.from_conf(read_files(make_full_conf(), [str(file)])))
        app.post_json(
            "/scheduler/v1/compute_nodes", [report(name) for name in ("cn1", "cn2", "cn3")]
        )
        for segment in (SEGMENT_1, SEGMENT_2):
            add_provider(app, f"segment {segment}", segment)
        for aggregate, *providers in ((AGG_1, uuid_of("cn1"), SEGMENT_1), (AGG_2, uuid_of("cn2"))):
            for provider in providers:
                set_aggregates(app, provider, aggregate)
        set_aggregates(app, SEGMENT_2, AGG_2)
        return app

    return build_cloud


def set_aggregates(app, provider, *aggregates):
    change_provider(app, provider, "aggregates", list(aggregates))


@pytest.fixture
def cloud(make_cloud, fake_neutron):
    return make_cloud(fake_neutron.url)


def explain(app, *networks, overrides=None, status=200, **changes):
    body = {"request_spec": spec(instance(1), requested_networks=list(networks), **changes)}
    if overrides is not None:
        body["overrides"] = overrides
    return app.post_json("/scheduler/v1/explain", body, status=status).json


def select_host(app, *networks, status=200, number=1):
    body = {"request_spec": spec(instance(number), requested_networks=list(networks))}
    return app.post_json("/scheduler/v1/select_destinations", body, status=status).json


def passing_hosts(explanation):
    return sorted(host["host"] for host in explanation["hosts"])


def filter_report(explanation, name):
    (result,) = (
        request_filter
        for request_filter in explanation["funnel"]["request_filters"]
        if request_filter["name"] == name
    )
    return result


@pytest.mark.parametrize(
    ("networks", "reached", "member_of"),
    [
        ([{"network_id": NET}], ["cn1", "cn2"], [f"in:{AGG_1},{AGG_2}"]),
        ([{"port_id": PORT}], ["cn2"], [AGG_2]),
        ([{"network_id": FLAT}], ["cn1", "cn2", "cn3"], []),
    ],
    ids=["network", "port", "flat network"],
)
def test_hosts_are_in_the_aggregates_of_the_segments(cloud, networks, reached, member_of):
    answer = explain(cloud, *networks)
    assert passing_hosts(answer) == reached
    query = parse_qs(answer["funnel"]["allocation_candidates"]["query"])
    request = [item.removeprefix("in:") for item in query.get("member_of", [])]
    assert sorted(request) == sorted(entry.removeprefix("in:") for entry in member_of)
    assert bool(filter_report(answer, "routed_networks_filter")["applied"]) == bool(member_of)


def test_selection_is_repeated_without_neutron(cloud, fake_neutron):
    first = select_host(cloud, {"port_id": PORT})
    assert first["selections"][0][0]["service_host"] == "cn2"
    fake_neutron.failure = ("500 Internal Server Error", b"")
    fake_neutron.seen.clear()
    assert select_host(cloud, {"port_id": PORT}) == first
    answer = explain(cloud, {"network_id": NET}, overrides={SWITCH: False})
    assert passing_hosts(answer) == ["cn1", "cn2", "cn3"]
    assert fake_neutron.seen == []


def test_unavailable_neutron_is_503(make_cloud):
    cloud = make_cloud(NOWHERE)
    for ask in (explain, select_host):
        (error,) = ask(cloud, {"port_id": PORT}, status=503)["errors"]
        assert error["detail"] == f"{NOWHERE} does not answer: Connection refused"
        assert error["code"] == "scheduler.unavailable"


def test_no_database_connection_is_used_during_requests_to_neutron(cloud, fake_neutron):
    database = cloud.app.services.database
    connections = []
    fake_neutron.watch = lambda: connections.append(database.connections_in_use)
    explain(cloud, {"port_id": PORT}, {"network_id": NET})
    select_host(cloud, {"port_id": PORT}, {"network_id": NET})
    assert len(connections) >= 6
    assert not any(connections)


def test_aggregates_of_all_segments_are_read_in_one_statement(cloud):
    def count_statements(*networks):
        with record_statements(cloud.app.services.database) as seen:
            explain(cloud, *networks)
        return len(seen)

    for _ in range(2):
        entry = count_statements({"network_id": NET, "segments": [SEGMENT_1]})
        both = count_statements({"network_id": NET}, {"port_id": PORT}, {"network_id": FLAT})
    assert entry == both
