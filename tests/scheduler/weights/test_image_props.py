# SPDX-License-Identifier: Apache-2.0
"""Weigher of image properties, as nova 34 weighs the same hosts."""

import pytest

from placement_sched.scheduler.host_manager import RecordedInstances
from placement_sched.scheduler.weights.image_props import ImagePropertiesWeigher
from tests.scheduler.weights.weighing import find_raw_weights, weigh_hosts
from tests.support.scheduling import make_report, make_spec, make_uuid
from tests.support.statements import record_statements
from tests.support.states import build_aggregates, build_host_state, build_instances, build_spec

MULTIPLIER_OPTION = "filter_scheduler__image_props_weight_multiplier"
WEIGHTS_OPTION = "filter_scheduler__image_props_weight_setting"
MULTIPLIER_OF_1 = {MULTIPLIER_OPTION: 1.0}

WINDOWS_IMAGE = {"os_distro": "windows", "hw_machine_type": "q35"}
LINUX_IMAGE = {"os_distro": "ubuntu", "hw_machine_type": "q35"}
ZERO_WEIGHTS = {"cn1": 0.0, "cn2": 0.0, "cn3": 0.0}


def build_instances_with_images(host, *properties, first=1):
    """Return instances on a host from images with these properties, or from none."""
    result = {}
    for number, entry in enumerate(properties, start=first):
        image = None if entry is None else {"id": make_uuid(99), "properties": entry}
        result |= build_instances(host, make_uuid(number), image=image)
    return result


HOSTS = [
    build_host_state(
        "cn1",
        instances=build_instances_with_images("cn1", WINDOWS_IMAGE, WINDOWS_IMAGE, LINUX_IMAGE),
    ),
    build_host_state(
        "cn2", instances=build_instances_with_images("cn2", LINUX_IMAGE, LINUX_IMAGE, None, first=4)
    ),
    build_host_state(
        "cn3", instances=build_instances_with_images("cn3", {"os_distro": "Windows"}, first=7)
    ),
]


@pytest.mark.parametrize(
    ("setting", "expected"),
    [
        ([], {"cn1": 5, "cn2": 2, "cn3": 0}),
        (["os_distro=1"], {"cn1": 2, "cn2": 0, "cn3": 0}),
        (["os_distro=2.5", "hw_machine_type=-1"], {"cn1": 2, "cn2": -2, "cn3": 0}),
        (["os_distro=0", "hw_machine_type=1"], {"cn1": 3, "cn2": 2, "cn3": 0}),
        (["os_distro=0"], ZERO_WEIGHTS),
        (["hw_video_model=1"], ZERO_WEIGHTS),
        (["os_distro=5", "os_distro=1"], {"cn1": 2, "cn2": 0, "cn3": 0}),
        (["os_distro", "=3", "hw_machine_type=x"], {"cn1": 5, "cn2": 2, "cn3": 0}),
    ],
    ids=[
        "all properties", "one property", "several properties", "ratio 0 and 1", "only ratio 0",
        "property of no image", "property named twice", "invalid items",
    ],
)  # fmt: skip
def test_each_shared_image_property_counts_with_its_ratio(setting, expected, caplog):
    request = build_spec(properties=WINDOWS_IMAGE)
    weights = find_raw_weights(
        ImagePropertiesWeigher, HOSTS, request, **MULTIPLIER_OF_1, **{WEIGHTS_OPTION: setting}
    )
    assert weights == expected
    warning = "image_props_weight_setting: items that are not name=number are ignored: "
    assert (warning in caplog.text) is ("os_distro" in setting)


@pytest.mark.parametrize(
    ("properties", "host_properties", "expected"),
    [
        ({"hw_qemu_guest_agent": "yes"}, {"hw_qemu_guest_agent": "True"}, 1),
        ({"vm_mode": "hvm"}, {"hw_vm_mode": "HVM"}, 1),
        ({"hw_cpu_sockets": 2}, {"hw_cpu_sockets": "2"}, 1),
        ({"trait:CUSTOM_A": "required"}, {"trait:CUSTOM_A": "required"}, 1),
        ({"trait:CUSTOM_A": "required"}, {"trait:CUSTOM_B": "required"}, 0),
        ({"my_own": "x"}, {"my_own": "x"}, 0),
        ({"os_distro": "None"}, {}, 0),
        ({"os_distro": "x"}, {"os_distro": "x", "hw_vif_model": "none such"}, 0),
    ],
    ids=[
        "boolean", "older name", "number", "equal traits", "other traits", "unknown", "text None",
        "invalid image property",
    ],
)  # fmt: skip
def test_image_properties_are_compared_as_nova_reads_them(properties, host_properties, expected):
    hosts = [
        build_host_state("cn1", instances=build_instances_with_images("cn1", host_properties)),
        build_host_state("cn2"),
    ]
    result = find_raw_weights(
        ImagePropertiesWeigher, hosts, build_spec(properties=properties), **MULTIPLIER_OF_1
    )
    assert result == {"cn1": expected, "cn2": 0}


def test_multiplier_packs_or_spreads_instances_with_equal_images():
    request = build_spec(properties=WINDOWS_IMAGE)
    packed = weigh_hosts(ImagePropertiesWeigher, HOSTS, request, **{MULTIPLIER_OPTION: 10.0})
    assert packed == [("cn1", 10.0), ("cn2", 4.0), ("cn3", 0.0)]
    spread = weigh_hosts(ImagePropertiesWeigher, HOSTS, request, **{MULTIPLIER_OPTION: -1.0})
    assert spread == [("cn3", 0.0), ("cn2", -0.4), ("cn1", -1.0)]


@pytest.mark.parametrize(("group", "counted"), [({"policy": "soft-affinity"}, 2), (None, 0)])
def test_instance_of_the_same_request_counts_in_a_server_group(group, counted):
    request = build_spec(
        properties=WINDOWS_IMAGE, instance_uuids=[make_uuid(50)], instance_group=group
    )
    chosen = build_host_state("cn1")
    chosen.consume_from_request(request)
    result = find_raw_weights(
        ImagePropertiesWeigher, [chosen, build_host_state("cn2")], request, **MULTIPLIER_OF_1
    )
    assert result == {"cn1": counted, "cn2": 0}


def test_aggregate_multiplier_counts_unless_the_configured_multiplier_is_0():
    result = build_aggregates({"image_props_weight_multiplier": "3"})
    hosts = [
        build_host_state(
            "cn1", instances=build_instances_with_images("cn1", WINDOWS_IMAGE), aggregates=result
        ),
        build_host_state("cn2"),
    ]
    request = build_spec(properties=WINDOWS_IMAGE)
    assert weigh_hosts(ImagePropertiesWeigher, hosts, request, **MULTIPLIER_OF_1)[0] == ("cn1", 3.0)
    assert weigh_hosts(ImagePropertiesWeigher, hosts, request)[0] == ("cn1", 0.0)


@pytest.mark.parametrize(
    ("options", "properties", "is_needed"),
    [
        (MULTIPLIER_OF_1, WINDOWS_IMAGE, True),
        ({MULTIPLIER_OPTION: 0.0}, WINDOWS_IMAGE, False),
        (MULTIPLIER_OF_1, {}, False),
        (MULTIPLIER_OF_1, {"my_own": "x"}, False),
        (
            {**MULTIPLIER_OF_1, WEIGHTS_OPTION: ["hw_video_model=1", "os_distro=0"]},
            WINDOWS_IMAGE,
            False,
        ),
    ],
    ids=["known property", "multiplier 0", "no property", "unknown property", "ratio 0"],
)
def test_image_properties_weigher_reads_instances_only_if_needed(options, properties, is_needed):
    request = []

    def record_and_read_instances(hosts):
        request.append(sorted(hosts))
        return build_instances_with_images("cn1", WINDOWS_IMAGE).values()

    recorded = RecordedInstances(
        {"cn1", "cn2"}, (), by_hosts=record_and_read_instances, by_uuids=lambda _uuids: ()
    )
    hosts = [
        build_host_state(name, instances=recorded.get_on_host(name)) for name in ("cn1", "cn2")
    ]
    result = find_raw_weights(
        ImagePropertiesWeigher, hosts, build_spec(properties=properties), **options
    )
    assert request == ([["cn1", "cn2"]] if is_needed else [])
    assert result == {"cn1": 2.0 if is_needed else 0.0, "cn2": 0.0}


def test_hosts_of_instances_with_similar_images_are_preferred(sqlite_app):
    sqlite_app.post_json("/scheduler/v1/compute_nodes", [make_report("cn1"), make_report("cn2")])
    record = {"host": "cn2", "node": "cn2", "image": {"properties": WINDOWS_IMAGE}}
    sqlite_app.put_json(f"/scheduler/v1/instances/{make_uuid(1)}", record)
    result, statements = {}, {}
    for multiplier in (0.0, 0.0, 5.0):  # the first request fills caches
        key = "filter_scheduler.image_props_weight_multiplier"
        request = make_spec(make_uuid(2), image={"properties": WINDOWS_IMAGE})
        body = {"request_spec": request, "overrides": {key: multiplier}}
        with record_statements(sqlite_app.app.services.database) as seen:
            response = sqlite_app.post_json("/scheduler/v1/explain", body).json
        result[multiplier] = [host["host"] for host in response["hosts"]]
        statements[multiplier] = len(seen)
    assert result == {0.0: ["cn1", "cn2"], 5.0: ["cn2", "cn1"]}
    assert statements[5.0] == statements[0.0] + 1
