# SPDX-License-Identifier: Apache-2.0
"""ImagePropertiesWeigher, as nova 34 weighs the same hosts."""

import logging

import pytest

from placement_sched.scheduler.host_manager import RecordedInstances
from placement_sched.scheduler.weights.image_props import ImagePropertiesWeigher
from tests.scheduler.weights.weighing import raw, run, weighed
from tests.support.scheduling import instance, report, spec
from tests.support.statements import counted
from tests.support.states import a_host, a_spec, aggregates, instances_on

MULTIPLIER = "filter_scheduler__image_props_weight_multiplier"
SETTING = "filter_scheduler__image_props_weight_setting"
ON = {MULTIPLIER: 1.0}

WINDOWS = {"os_distro": "windows", "hw_machine_type": "q35"}
LINUX = {"os_distro": "ubuntu", "hw_machine_type": "q35"}
NOBODY = {"cn1": 0.0, "cn2": 0.0, "cn3": 0.0}


def booted(host, *properties, first=1):
    """Return instances on a host from images with these properties, or from none."""
    found = {}
    for number, each in enumerate(properties, start=first):
        image = None if each is None else {"id": instance(99), "properties": each}
        found |= instances_on(host, instance(number), image=image)
    return found


HOSTS = [
    a_host("cn1", instances=booted("cn1", WINDOWS, WINDOWS, LINUX)),
    a_host("cn2", instances=booted("cn2", LINUX, LINUX, None, first=4)),
    a_host("cn3", instances=booted("cn3", {"os_distro": "Windows"}, first=7)),
]


@pytest.mark.parametrize(
    ("setting", "expected"),
    [
        ([], {"cn1": 5, "cn2": 2, "cn3": 0}),
        (["os_distro=1"], {"cn1": 2, "cn2": 0, "cn3": 0}),
        (["os_distro=2.5", "hw_machine_type=-1"], {"cn1": 2, "cn2": -2, "cn3": 0}),
        (["os_distro=0", "hw_machine_type=1"], {"cn1": 3, "cn2": 2, "cn3": 0}),
        (["os_distro=0"], NOBODY),
        (["hw_video_model=1"], NOBODY),
        (["os_distro=5", "os_distro=1"], {"cn1": 2, "cn2": 0, "cn3": 0}),
        (["os_distro", "=3", "hw_machine_type=x"], {"cn1": 5, "cn2": 2, "cn3": 0}),
    ],
    ids=[
        "all alike", "one", "several", "one ignored", "ratio 0", "another", "named twice", "broken",
    ],
)  # fmt: skip
def test_each_property_that_an_instance_shares_counts_as_set(setting, expected):
    request = a_spec(properties=WINDOWS)
    assert raw(ImagePropertiesWeigher, HOSTS, request, **ON, **{SETTING: setting}) == expected


@pytest.mark.parametrize(
    ("properties", "here", "expected"),
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
        "boolean", "older name", "number", "traits", "other traits", "unknown", "text None",
        "image that cannot be",
    ],
)  # fmt: skip
def test_properties_are_compared_as_nova_reads_them(properties, here, expected):
    hosts = [a_host("cn1", instances=booted("cn1", here)), a_host("cn2")]
    told = raw(ImagePropertiesWeigher, hosts, a_spec(properties=properties), **ON)
    assert told == {"cn1": expected, "cn2": 0}


def test_positive_multiplier_packs_and_a_negative_one_spreads():
    request = a_spec(properties=WINDOWS)
    packed = weighed(ImagePropertiesWeigher, HOSTS, request, **{MULTIPLIER: 10.0})
    assert packed == [("cn1", 10.0), ("cn2", 4.0), ("cn3", 0.0)]
    spread = weighed(ImagePropertiesWeigher, HOSTS, request, **{MULTIPLIER: -1.0})
    assert spread == [("cn3", 0.0), ("cn2", -0.4), ("cn1", -1.0)]


@pytest.mark.parametrize(("group", "counted"), [({"policy": "soft-affinity"}, 2), (None, 0)])
def test_instance_that_the_same_request_placed_counts_in_a_server_group(group, counted):
    request = a_spec(properties=WINDOWS, instance_uuids=[instance(50)], instance_group=group)
    chosen = a_host("cn1")
    chosen.consume_from_request(request)
    told = raw(ImagePropertiesWeigher, [chosen, a_host("cn2")], request, **ON)
    assert told == {"cn1": counted, "cn2": 0}


def test_aggregates_override_the_multiplier_only_where_it_is_not_0():
    told = aggregates({"image_props_weight_multiplier": "3"})
    hosts = [a_host("cn1", instances=booted("cn1", WINDOWS), aggregates=told), a_host("cn2")]
    request = a_spec(properties=WINDOWS)
    assert weighed(ImagePropertiesWeigher, hosts, request, **ON)[0] == ("cn1", 3.0)
    assert weighed(ImagePropertiesWeigher, hosts, request)[0] == ("cn1", 0.0)


@pytest.mark.parametrize(
    ("options", "properties", "looks"),
    [
        (ON, WINDOWS, True),
        ({MULTIPLIER: 0.0}, WINDOWS, False),
        (ON, {}, False),
        (ON, {"my_own": "x"}, False),
        ({**ON, SETTING: ["hw_video_model=1", "os_distro=0"]}, WINDOWS, False),
    ],
    ids=["counts", "switched off", "no property", "unknown property", "none that counts"],
)
def test_instances_are_looked_at_only_where_one_could_count(options, properties, looks):
    asked = []

    def by_hosts(hosts):
        asked.append(sorted(hosts))
        return booted("cn1", WINDOWS).values()

    recorded = RecordedInstances({"cn1", "cn2"}, (), by_hosts=by_hosts, by_uuids=lambda _uuids: ())
    hosts = [a_host(name, instances=recorded.on(name)) for name in ("cn1", "cn2")]
    told = raw(ImagePropertiesWeigher, hosts, a_spec(properties=properties), **options)
    assert asked == ([["cn1", "cn2"]] if looks else [])
    assert told == {"cn1": 2.0 if looks else 0.0, "cn2": 0.0}


def test_what_is_ignored_is_logged(caplog):
    with caplog.at_level(logging.WARNING):
        run(ImagePropertiesWeigher, HOSTS, **ON, **{SETTING: ["os_distro=1", "much"]})
    assert (
        "image_props_weight_setting: items that are not name=number are ignored: much"
        in caplog.text
    )


# From end to end


def test_recorded_instances_draw_requests_with_like_images(sqlite_app):
    """The second of two equal hosts has the instance, and is read for it in one statement."""
    sqlite_app.post_json("/scheduler/v1/compute_nodes", [report("cn1"), report("cn2")])
    record = {"host": "cn2", "node": "cn2", "image": {"properties": WINDOWS}}
    sqlite_app.put_json(f"/scheduler/v1/instances/{instance(1)}", record)
    found, statements = {}, {}
    for multiplier in (0.0, 0.0, 5.0):  # the first time fills what is kept between requests
        key = "filter_scheduler.image_props_weight_multiplier"
        asked = spec(instance(2), image={"properties": WINDOWS})
        body = {"request_spec": asked, "overrides": {key: multiplier}}
        with counted(sqlite_app.app.services.database) as seen:
            told = sqlite_app.post_json("/scheduler/v1/explain", body).json
        found[multiplier] = [one["host"] for one in told["hosts"]]
        statements[multiplier] = len(seen)
    assert found == {0.0: ["cn1", "cn2"], 5.0: ["cn2", "cn1"]}
    assert statements[5.0] == statements[0.0] + 1
