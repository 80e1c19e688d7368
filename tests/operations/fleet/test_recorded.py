# SPDX-License-Identifier: Apache-2.0
"""Flavors and images in instances of fleet files, with the schema of the scheduler API."""

import orjson
import pytest
import yaml

from placement_sched.errors import Invalid
from tests.support.clouds import uuid_of


def test_flavor_and_image_of_an_instance_are_stored_unchanged(sqlite_cloud):
    flavor = {"vcpus": 4, "swap": "", "extra_specs": {"a": 1, "b": "c", "d": 1.5}}
    image = {"tags": ["t"], "properties": {"a": True, "mappings": [{"a": [1, {"b": None}]}]}}
    uuid = uuid_of("one")
    text = orjson.dumps([{"uuid": uuid, "flavor": flavor, "image": image}]).decode()
    sqlite_cloud.load(f"instances: {text}")
    instance = sqlite_cloud.state.instances[uuid]
    assert orjson.dumps(instance.flavor) == orjson.dumps(flavor)
    assert orjson.dumps(instance.image) == orjson.dumps(image)


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        (
            "flavor: {name: x, vcpus: many, memory_mb: 1}",
            "'many' is not an integer (at instances.0.flavor.vcpus)",
        ),
        ("flavor: {vcpus: -5}", "-5 is less than the minimum of 0"),
        ("flavor: {vcpus: 1.5}", "1.5 is not an integer"),
        ("flavor: {vcpus: true}", "true is not an integer"),
        ("flavor: {vcpus: [1]}", "[1] is not an integer"),
        ("flavor: {extra_specs: {a: true}}", "true is not a string or a number"),
        ("image: {name: 5}", "5 is not a string. Put it in quotes (at instances.0.image.name)"),
        ("image: {properties: 7}", "7 is not an object"),
        ("image: {properties: {a: [1]}}", "[1] is not a string, a number or a boolean"),
        ("image: {min_ram: many}", "'many' is not an integer"),
        # Values that JSON does not have: a lone surrogate, and infinity, which is read as
        # text.
        (r'flavor: {extra_specs: {a: "\ud800"}}', "found invalid Unicode character escape code"),
        (r'image: {properties: {a: "\ud800"}}', "found invalid Unicode character escape code"),
        ("flavor: {vcpus: .inf}", "'.inf' is not an integer"),
        ("image: {min_ram: .inf}", "'.inf' is not an integer"),
        ("flavor: {vcpus: 18446744073709551616}", "'18446744073709551616' is not an integer"),
    ],
)
def test_invalid_flavor_or_image_is_rejected_with_its_path(sqlite_cloud, entry, message):
    for dry_run in (True, False):
        with pytest.raises(Invalid) as refused:
            sqlite_cloud.load(f"instances:\n- name: i1\n  host: a\n  {entry}", dry_run=dry_run)
        assert str(refused.value).startswith("f.yaml:4:")
        assert message in str(refused.value)
    assert sqlite_cloud.state.instances == {}


def test_metadata_of_an_instance_are_replaced_only_if_given(sqlite_cloud):
    uuid = uuid_of("one")
    entry = f"instances:\n- uuid: {uuid}\n"
    sqlite_cloud.load(f"{entry}  metadata: {{tier: 1}}\n  system_metadata: {{a: null, b: x}}")
    sqlite_cloud.load(f"{entry}  metadata: {{role: web}}\n  vm_state: error")
    instance = sqlite_cloud.state.instances[uuid]
    assert instance.vm_state == "error"
    assert instance.metadata == {"role": "web"}
    assert instance.system_metadata == {"a": None, "b": "x"}
    text = "x" * 40_000
    with pytest.raises(Invalid, match="more than 131072 characters"):
        sqlite_cloud.load(f"{entry}  metadata: {{a: {text}, b: {text}, c: {text}, d: {text}}}")


def test_infinite_numbers_in_flavor_and_image_are_stored_as_text(sqlite_cloud):
    uuid = uuid_of("one")
    sqlite_cloud.load(
        f"instances:\n- uuid: {uuid}\n"
        "  flavor: {extra_specs: {a: .inf, b: 1e999}}\n  image: {properties: {a: -.inf, b: .nan}}"
    )
    instance = sqlite_cloud.state.instances[uuid]
    assert instance.flavor == {"extra_specs": {"a": ".inf", "b": "1e999"}}
    assert instance.image == {"properties": {"a": "-.inf", "b": ".nan"}}


def test_request_of_an_instance_is_loaded_and_dumped(sqlite_cloud):
    """Its boot from volume counts for the default allocations."""
    request = {"availability_zone": "007", "is_bfv": True, "numa_topology": None}
    sqlite_cloud.load(
        "hosts:\n- host: a\n  vcpus: 8\n  memory_mb: 1024\n  local_gb: 99\n"
        "instances:\n- name: i1\n  host: a\n  flavor: {vcpus: 1, memory_mb: 2, root_gb: 9}\n"
        "  request: {availability_zone: '007', is_bfv: true, numa_topology: null}"
    )
    (entry,) = yaml.safe_load(sqlite_cloud.dump())["instances"]
    assert (entry["request"], "allocations" in entry) == (request, False)
    ((uuid, instance),) = sqlite_cloud.state.instances.items()
    assert instance.request == request
    (amounts,) = sqlite_cloud.state.consumers[uuid].allocations.values()
    assert amounts == {"VCPU": 1, "MEMORY_MB": 2}
    with pytest.raises(Invalid, match="is_bfv"):
        sqlite_cloud.load(f"instances:\n- uuid: {uuid}\n  request: {{is_bfv: maybe}}")
