# SPDX-License-Identifier: Apache-2.0
"""Requests and records that name a stored flavor."""

import pytest

from tests.support.scheduling import hosts_of, instance, spec, with_licensed_host
from tests.support.statements import counted

SELECT = "/scheduler/v1/select_destinations"
FLAVORS = "/compute/v2.1/flavors"


@pytest.fixture
def cloud(app):
    return with_licensed_host(app)


def make(app, flavorid, name, extra_specs=None, **fields):
    sizes = {"ram": 2048, "vcpus": 2, "disk": 20, **fields}
    app.post_json(FLAVORS, {"flavor": {"id": flavorid, "name": name, **sizes}})
    body = {"extra_specs": extra_specs or {}}
    app.post_json(f"{FLAVORS}/{flavorid}/os-extra_specs", body)


@pytest.fixture
def licensed(cloud):
    make(cloud, "f1", "m1.licensed", {"trait:CUSTOM_LICENSED": "required"}, swap=1024)
    return cloud


def select(app, flavor, *instances, status=200):
    body = {"request_spec": spec(*instances, flavor=flavor)}
    return app.post_json(SELECT, body, status=status).json


def query_of(app, flavor):
    answer = app.post_json("/scheduler/v1/explain", {"request_spec": spec(flavor=flavor)}).json
    return answer["funnel"]["allocation_candidates"]["query"]


@pytest.mark.parametrize("named", ["f1", "m1.licensed"])
def test_flavor_is_found_by_id_and_by_name(licensed, named):
    assert hosts_of(select(licensed, named)) == ["cn2"]
    query = query_of(licensed, named)
    assert "required=CUSTOM_LICENSED" in query
    # Swap takes room on the disk.
    assert "resources=DISK_GB%3A21%2CMEMORY_MB%3A2048%2CVCPU%3A2" in query


def test_an_id_goes_before_a_name(licensed):
    make(licensed, "m1.licensed", "other")
    assert hosts_of(select(licensed, "m1.licensed")) == ["cn1"]


@pytest.mark.parametrize("named", ["F1", "M1.licensed", "f1 ", "nope"])
def test_flavor_that_is_not_stored_is_404(licensed, named):
    for path in (SELECT, "/scheduler/v1/explain"):
        body = {"request_spec": spec(flavor=named)}
        (error,) = licensed.post_json(path, body, status=404).json["errors"]
        assert error["code"] == "scheduler.not_found"
        assert f"no stored flavor {named!r}" in error["detail"]
        assert error["detail"].endswith("(at $.request_spec.flavor)")


def test_private_flavor_may_be_named(cloud):
    make(cloud, "p", "private", **{"os-flavor-access:is_public": False})
    assert hosts_of(select(cloud, "p")) == ["cn1"]


@pytest.mark.all_databases
def test_changed_flavor_is_heeded_at_once(licensed):
    licensed.delete(f"{FLAVORS}/f1/os-extra_specs/trait:CUSTOM_LICENSED")
    assert hosts_of(select(licensed, "f1")) == ["cn1"]


def test_extra_specs_of_a_stored_flavor_are_asked_of_placement(cloud):
    make(cloud, "p", "pinned", {"hw:cpu_policy": "dedicated", "hw:cpu_thread_policy": "isolate"})
    body = {"request_spec": spec(flavor="pinned")}
    told = cloud.post_json("/scheduler/v1/explain", body).json
    query = told["funnel"]["allocation_candidates"]["query"]
    assert "PCPU%3A" in query
    assert "required=%21HW_CPU_HYPERTHREADING" in query


def test_instance_keeps_the_flavor_as_it_was(licensed):
    select(licensed, "m1.licensed", instance(1))
    licensed.delete(f"{FLAVORS}/f1")
    recorded = licensed.get(f"/scheduler/v1/instances/{instance(1)}").json["flavor"]
    assert (recorded["flavorid"], recorded["name"]) == ("f1", "m1.licensed")
    assert (recorded["vcpus"], recorded["memory_mb"], recorded["swap"]) == (2, 2048, 1024)
    assert recorded["extra_specs"] == {"trait:CUSTOM_LICENSED": "required"}


def test_flavor_as_recorded_can_be_asked_for_again(licensed):
    select(licensed, "f1", instance(1))
    recorded = licensed.get(f"/scheduler/v1/instances/{instance(1)}").json
    assert query_of(licensed, recorded["flavor"]) == query_of(licensed, "f1")
    again = licensed.put_json(
        f"/scheduler/v1/instances/{instance(1)}", {"flavor": recorded["flavor"]}
    )
    assert again.json["flavor"] == recorded["flavor"]


def test_request_sent_again_finds_its_placement_though_the_flavor_changed(licensed):
    first = select(licensed, "f1", instance(1))
    licensed.delete(f"{FLAVORS}/f1/os-extra_specs/trait:CUSTOM_LICENSED")
    assert select(licensed, "f1", instance(1)) == first


def test_request_sent_again_finds_its_placement_though_the_flavor_is_gone(licensed):
    first = select(licensed, "f1", instance(1))
    licensed.delete(f"{FLAVORS}/f1")
    assert select(licensed, "f1", instance(1)) == first
    for other in (
        select(licensed, "f1", instance(2), status=404),
        select(licensed, "f1", status=404),
    ):
        assert other["errors"][0]["detail"].startswith("There is no stored flavor 'f1'")


def test_rebuild_by_a_flavor_that_is_gone_is_not_taken_for_a_request_sent_again(licensed):
    select(licensed, "f1", instance(1))
    licensed.delete(f"{FLAVORS}/f1")
    rebuilt = {"_nova_check_type": ["rebuild"]}
    asked = spec(instance(1), flavor="f1", scheduler_hints=rebuilt)
    answer = licensed.post_json(SELECT, {"request_spec": asked}, status=404)
    assert answer.json["errors"][0]["code"] == "scheduler.not_found"


def test_naming_a_flavor_takes_one_statement_more(licensed):
    whole = {**spec()["flavor"], "extra_specs": {"trait:CUSTOM_LICENSED": "required"}}
    query_of(licensed, whole)
    for number in (0, 20):
        for other in range(number):
            make(licensed, f"o{other}", f"other-{other}", {"a": "1", "b": "2"})
        with counted(licensed.app.services.database) as given:
            query_of(licensed, whole)
        with counted(licensed.app.services.database) as named:
            query_of(licensed, "m1.licensed")
        assert len(named) == len(given) + 1


@pytest.mark.parametrize("named", ["f1", "m1.licensed"])
def test_recorded_instance_keeps_the_flavor_it_names(licensed, named):
    path = f"/scheduler/v1/instances/{instance(1)}"
    recorded = licensed.put_json(path, {"flavor": named}).json["flavor"]
    assert (recorded["flavorid"], recorded["memory_mb"]) == ("f1", 2048)
    assert recorded["extra_specs"] == {"trait:CUSTOM_LICENSED": "required"}
    licensed.delete(f"{FLAVORS}/f1")
    assert licensed.get(path).json["flavor"] == recorded


def test_recorded_instance_keeps_the_id_of_a_flavor_that_is_gone(licensed):
    path = f"/scheduler/v1/instances/{instance(1)}"
    assert licensed.put_json(path, {"flavor": "gone"}).json["flavor"] == {"id": "gone"}
    assert licensed.put_json(path, {"flavor": None}).json["flavor"] is None
