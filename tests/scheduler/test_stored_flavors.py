# SPDX-License-Identifier: Apache-2.0
"""Requests and records that name a stored flavor."""

import pytest

from tests.support.scheduling import add_licensed_host, instance, selected_hosts, spec
from tests.support.statements import record_statements

SELECT = "/scheduler/v1/select_destinations"
FLAVORS = "/compute/v2.1/flavors"


@pytest.fixture
def cloud(app):
    return add_licensed_host(app)


def store_flavor(app, flavorid, name, extra_specs=None, **fields):
    sizes = {"ram": 2048, "vcpus": 2, "disk": 20, **fields}
    app.post_json(FLAVORS, {"flavor": {"id": flavorid, "name": name, **sizes}})
    body = {"extra_specs": extra_specs or {}}
    app.post_json(f"{FLAVORS}/{flavorid}/os-extra_specs", body)


@pytest.fixture
def licensed_cloud(cloud):
    store_flavor(cloud, "f1", "m1.licensed", {"trait:CUSTOM_LICENSED": "required"}, swap=1024)
    return cloud


def select_host(app, flavor, *instances, status=200):
    body = {"request_spec": spec(*instances, flavor=flavor)}
    return app.post_json(SELECT, body, status=status).json


def read_query(app, flavor):
    answer = app.post_json("/scheduler/v1/explain", {"request_spec": spec(flavor=flavor)}).json
    return answer["funnel"]["allocation_candidates"]["query"]


@pytest.mark.parametrize("flavor_name", ["f1", "m1.licensed"])
def test_flavor_may_be_named_by_id_or_name(licensed_cloud, flavor_name):
    assert selected_hosts(select_host(licensed_cloud, flavor_name)) == ["cn2"]
    query = read_query(licensed_cloud, flavor_name)
    assert "required=CUSTOM_LICENSED" in query
    # Swap takes room on the disk.
    assert "resources=DISK_GB%3A21%2CMEMORY_MB%3A2048%2CVCPU%3A2" in query


@pytest.mark.all_databases
def test_id_has_precedence_and_changes_apply_at_once(licensed_cloud):
    store_flavor(licensed_cloud, "p", "private", **{"os-flavor-access:is_public": False})
    assert selected_hosts(select_host(licensed_cloud, "p")) == ["cn1"]
    store_flavor(licensed_cloud, "m1.licensed", "other")
    assert selected_hosts(select_host(licensed_cloud, "m1.licensed")) == ["cn1"]
    assert selected_hosts(select_host(licensed_cloud, "f1")) == ["cn2"]
    licensed_cloud.delete(f"{FLAVORS}/f1/os-extra_specs/trait:CUSTOM_LICENSED")
    assert selected_hosts(select_host(licensed_cloud, "f1")) == ["cn1"]


@pytest.mark.parametrize("flavor_name", ["F1", "M1.licensed", "f1 ", "nope"])
def test_unknown_flavor_is_404(licensed_cloud, flavor_name):
    for path in (SELECT, "/scheduler/v1/explain"):
        body = {"request_spec": spec(flavor=flavor_name)}
        (error,) = licensed_cloud.post_json(path, body, status=404).json["errors"]
        assert error["code"] == "scheduler.not_found"
        assert f"no stored flavor {flavor_name!r}" in error["detail"]
        assert error["detail"].endswith("(at $.request_spec.flavor)")


def test_extra_specs_of_a_stored_flavor_are_in_the_query(cloud):
    store_flavor(
        cloud, "p", "pinned", {"hw:cpu_policy": "dedicated", "hw:cpu_thread_policy": "isolate"}
    )
    body = {"request_spec": spec(flavor="pinned")}
    answer = cloud.post_json("/scheduler/v1/explain", body).json
    query = answer["funnel"]["allocation_candidates"]["query"]
    assert "PCPU%3A" in query
    assert "required=%21HW_CPU_HYPERTHREADING" in query


def test_instance_keeps_its_flavor_after_changes(licensed_cloud):
    path = f"/scheduler/v1/instances/{instance(1)}"
    first = select_host(licensed_cloud, "f1", instance(1))
    flavor = licensed_cloud.get(path).json["flavor"]
    assert read_query(licensed_cloud, flavor) == read_query(licensed_cloud, "f1")
    licensed_cloud.delete(f"{FLAVORS}/f1/os-extra_specs/trait:CUSTOM_LICENSED")
    assert select_host(licensed_cloud, "f1", instance(1)) == first
    licensed_cloud.delete(f"{FLAVORS}/f1")
    assert select_host(licensed_cloud, "f1", instance(1)) == first
    flavor = licensed_cloud.get(path).json["flavor"]
    assert (flavor["flavorid"], flavor["name"]) == ("f1", "m1.licensed")
    assert (flavor["vcpus"], flavor["memory_mb"], flavor["swap"]) == (2, 2048, 1024)
    assert flavor["extra_specs"] == {"trait:CUSTOM_LICENSED": "required"}
    for answer in (
        select_host(licensed_cloud, "f1", instance(2), status=404),
        select_host(licensed_cloud, "f1", status=404),
    ):
        assert answer["errors"][0]["detail"].startswith("There is no stored flavor 'f1'")
    hints = {"_nova_check_type": ["rebuild"]}
    rebuild = {"request_spec": spec(instance(1), flavor="f1", scheduler_hints=hints)}
    answer = licensed_cloud.post_json(SELECT, rebuild, status=404)
    assert answer.json["errors"][0]["code"] == "scheduler.not_found"
    assert licensed_cloud.put_json(path, {"flavor": flavor}).json["flavor"] == flavor


def test_stored_flavor_takes_one_more_statement(licensed_cloud):
    flavor = {**spec()["flavor"], "extra_specs": {"trait:CUSTOM_LICENSED": "required"}}
    read_query(licensed_cloud, flavor)
    for number in (0, 20):
        for other in range(number):
            store_flavor(licensed_cloud, f"o{other}", f"other-{other}", {"a": "1", "b": "2"})
        with record_statements(licensed_cloud.app.services.database) as value:
            read_query(licensed_cloud, flavor)
        with record_statements(licensed_cloud.app.services.database) as flavor_name:
            read_query(licensed_cloud, "m1.licensed")
        assert len(flavor_name) == len(value) + 1


@pytest.mark.parametrize("flavor_name", ["f1", "m1.licensed"])
def test_recorded_instance_keeps_its_flavor(licensed_cloud, flavor_name):
    path = f"/scheduler/v1/instances/{instance(1)}"
    recorded = licensed_cloud.put_json(path, {"flavor": flavor_name}).json["flavor"]
    assert (recorded["flavorid"], recorded["memory_mb"]) == ("f1", 2048)
    assert recorded["extra_specs"] == {"trait:CUSTOM_LICENSED": "required"}
    licensed_cloud.delete(f"{FLAVORS}/f1")
    assert licensed_cloud.get(path).json["flavor"] == recorded
    assert licensed_cloud.put_json(path, {"flavor": "gone"}).json["flavor"] == {"id": "gone"}
    assert licensed_cloud.put_json(path, {"flavor": None}).json["flavor"] is None
