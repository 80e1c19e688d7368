# SPDX-License-Identifier: Apache-2.0
"""The request spec: nova's names in a JSON document."""

from dataclasses import replace

import pytest

from placement_sched.errors import Invalid, NotFound
from placement_sched.model.flavor import Flavor
from placement_sched.model.request_spec import (
    Destination,
    RequestSpec,
    TriedHost,
    request_spec_from,
)

FLAVOR = {"name": "m1", "vcpus": 2, "memory_mb": 512, "root_gb": 10, "ephemeral_gb": 1, "swap": 5}


def spec_of(**document):
    return request_spec_from({"flavor": FLAVOR, **document})


def test_smallest_request_has_novas_defaults():
    spec = spec_of()
    assert (spec.num_instances, spec.instance_uuid, spec.instance_uuids) == (1, None, ())
    assert (spec.ignore_hosts, spec.force_hosts, spec.force_nodes) == ((), (), ())
    assert spec.requested_destination is spec.retry is spec.limits is spec.instance_group is None
    assert (spec.is_bfv, spec.availability_zone, spec.scheduler_hints) == (False, None, {})
    assert spec.destination == Destination()


def test_flavor_can_be_read_from_the_spec():
    spec = spec_of()
    assert (spec.vcpus, spec.memory_mb, spec.root_gb) == (2, 512, 10)
    assert (spec.ephemeral_gb, spec.swap) == (1, 5)


def test_plain_fields_are_taken_as_they_are():
    spec = spec_of(project_id="p", user_id="u", is_bfv=True, availability_zone="az1")
    assert (spec.project_id, spec.user_id) == ("p", "u")
    assert (spec.is_bfv, spec.availability_zone) == (True, "az1")


@pytest.mark.parametrize(
    ("document", "number", "first"),
    [
        ({"num_instances": 3}, 3, None),
        ({"num_instances": 3, "instance_uuids": ["a", "b"]}, 2, "a"),
        ({"instance_uuids": ["a"]}, 1, "a"),
        ({"instance_uuids": []}, 1, None),
    ],
)
def test_length_of_instance_uuids_wins_over_num_instances(document, number, first):
    spec = spec_of(**document)
    assert (spec.num_instances, spec.instance_uuid) == (number, first)


U = "0f0e0d0c-0b0a-0908-0706-050403020100"


@pytest.mark.parametrize("spelled", [U.upper(), U.replace("-", "")])
def test_instances_are_known_however_their_uuid_is_spelled(spelled):
    spec = spec_of(instance_uuids=[spelled])
    assert (spec.instance_uuid, spec.instance_uuids) == (U, (U,))
    with pytest.raises(Invalid, match=rf"{U} is repeated .*\$\.request_spec\.instance_uuids"):
        spec_of(instance_uuids=[U, spelled])


def test_spec_for_another_instance_is_a_new_one():
    spec = spec_of(instance_uuids=["a", "b"])
    assert spec.for_instance("b").instance_uuid == "b"
    assert spec.instance_uuid == "a"


@pytest.mark.parametrize(
    "field",
    [
        "project_id",
        "availability_zone",
        "ignore_hosts",
        "force_hosts",
        "requested_destination",
        "retry",
        "limits",
        "scheduler_hints",
        "requested_resources",
        "request_level_params",
        "instance_group",
        "image",
        "num_instances",
    ],
)
def test_null_counts_as_absent(field):
    assert spec_of(**{field: None}) == spec_of()


def test_hints_are_lists_and_read_singly():
    spec = spec_of(scheduler_hints={"one": "a", "single": ["b"], "two": ["c", "d"], "none": []})
    assert spec.scheduler_hints["one"] == ["a"]
    hints = [spec.get_scheduler_hint(name) for name in ("one", "single", "two", "none", "absent")]
    assert hints == ["a", "b", ["c", "d"], [], None]
    assert spec.get_scheduler_hint("absent", "default") == "default"


def test_destination_is_taken_apart():
    document = {
        "host": "h",
        "node": "n",
        "cell": "c",
        "aggregates": ["a,b", "c"],
        "forbidden_aggregates": ["d"],
        "allow_cross_cell_move": True,
    }
    assert spec_of(requested_destination=document).requested_destination == Destination(
        host="h",
        node="n",
        cell="c",
        aggregates=("a,b", "c"),
        forbidden_aggregates=("d",),
        allow_cross_cell_move=True,
    )


def test_destination_is_narrowed_into_a_new_one():
    before = Destination(aggregates=("a",), forbidden_aggregates=("x",))
    after = before.requiring(["b", "c"]).forbidding(["x", "y"])
    assert (after.aggregates, after.forbidden_aggregates) == (("a", "b,c"), ("x", "y"))
    assert (before.aggregates, before.forbidden_aggregates) == (("a",), ("x",))


def test_retry_names_hosts_as_nova_does():
    retry = spec_of(retry={"num_attempts": 2, "hosts": [["h", "n"]]}).retry
    assert (retry.num_attempts, retry.hosts) == (2, (TriedHost("h", "n"),))
    assert (retry.hosts[0].host, retry.hosts[0].hypervisor_hostname) == ("h", "n")


def test_limits_and_request_level_params_are_attributes():
    spec = spec_of(
        limits={"memory_mb": 5},
        request_level_params={"root_required": ["A"], "same_subtree": [["_1", "_2"]]},
    )
    assert (spec.limits.memory_mb, spec.limits.vcpu) == (5, None)
    assert (spec.root_required, spec.root_forbidden) == (frozenset({"A"}), frozenset())
    assert spec.same_subtree == (("_1", "_2"),)


@pytest.mark.parametrize("noun", ["flavor", "image"])
def test_stored_flavor_or_image_is_not_looked_up_here(noun):
    with pytest.raises(NotFound, match=f"no stored {noun} 'x'"):
        spec_of(**{noun: "x"})


def test_image_property_that_cannot_be_is_refused_by_name():
    with pytest.raises(Invalid, match="hw_cpu_policy"):
        spec_of(image={"properties": {"hw_cpu_policy": "some"}})


def test_specs_cannot_be_changed():
    with pytest.raises(AttributeError):
        spec_of().num_instances = 2  # type: ignore[misc]
    assert isinstance(spec_of(), RequestSpec)


def test_hardware_is_read_once_for_all_copies_with_this_flavor_and_image():
    spec = spec_of()
    hardware = spec.hardware
    assert replace(spec, user_id="u").hardware is spec.hardware is hardware
    assert replace(spec, flavor=Flavor()).hardware is not hardware
    assert spec_of() == spec
