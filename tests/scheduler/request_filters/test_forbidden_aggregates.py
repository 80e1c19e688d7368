# SPDX-License-Identifier: Apache-2.0
"""forbidden_aggregates: every example of the spec, the rule's edges, and a naive model of it."""

import os
from uuid import UUID

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from placement_sched.config.conf import read_files
from placement_sched.config.settings import Settings
from placement_sched.errors import Invalid
from placement_sched.scheduler.plugins import make_full_conf
from placement_sched.scheduler.request_filters.forbidden_aggregates import ForbiddenAggregates
from tests.scheduler.explained import explained, put_aggregate, put_hosts
from tests.scheduler.worlds import AWorld
from tests.support.scheduling import flavor, spec
from tests.support.states import a_spec, settings_with

WINDOWS = {"trait:CUSTOM_WINDOWS_LICENSED": "required"}
XYZ = {"trait:CUSTOM_XYZ": "required"}


def forbidden(metadata, extra_specs=None, properties=None, **fields):
    """Return the numbers of the aggregates that the request may not use."""
    asked = a_spec(extra_specs, properties, **fields)
    outcome = ForbiddenAggregates().apply(asked, AWorld.of(*metadata))
    uuids = outcome.spec.destination.forbidden_aggregates
    added = [uuid for uuid in uuids if uuid not in asked.destination.forbidden_aggregates]
    assert list(outcome.changes.get("forbidden_aggregates", [])) == added
    return [UUID(uuid).int for uuid in uuids]


# The problem of the spec: image 2, without properties, must not use the licensed hosts.


def test_image_without_properties_stays_out_of_licensed_hosts():
    assert forbidden([WINDOWS], properties={}) == [1]


def test_windows_image_may_use_licensed_hosts():
    assert forbidden([WINDOWS], properties=WINDOWS) == []


def test_image_property_that_is_no_trait_does_not_open_licensed_hosts():
    assert forbidden([WINDOWS], properties={"os_distro": "windows"}) == [1]


# The spec's aggregate 123, which requires two traits.


@pytest.mark.parametrize(
    ("extra_specs", "properties", "expected"),
    [
        ({}, {}, [1]),
        (WINDOWS, {}, [1]),
        ({}, XYZ, [1]),
        (WINDOWS, XYZ, []),
        (XYZ, WINDOWS, []),
        (WINDOWS | XYZ, {}, []),
        ({}, WINDOWS | XYZ, []),
    ],
)
def test_several_traits_of_an_aggregate_are_all_needed_from_flavor_or_image(
    extra_specs, properties, expected
):
    assert forbidden([WINDOWS | XYZ], extra_specs, properties) == expected


def test_several_forbidden_aggregates_are_all_named():
    assert forbidden([WINDOWS, {}, XYZ, WINDOWS | XYZ], properties=XYZ) == [1, 4]


# The edges of the rule.


def test_any_missing_trait_forbids_the_aggregate_though_the_request_has_another():
    assert forbidden([WINDOWS | XYZ], WINDOWS | {"trait:CUSTOM_OTHER": "required"}) == [1]


@pytest.mark.parametrize("value", ["forbidden", "Required", "required ", "", "true"])
def test_other_values_in_the_metadata_say_nothing(value):
    assert forbidden([{"trait:CUSTOM_XYZ": value}]) == []


def test_trait_that_the_flavor_forbids_opens_nothing():
    assert forbidden([XYZ], {"trait:CUSTOM_XYZ": "forbidden"}) == [1]


@pytest.mark.parametrize("value", ["forbidden", "Required", "preferred", ""])
def test_other_values_in_the_image_open_nothing(value):
    assert forbidden([XYZ], properties={"trait:CUSTOM_XYZ": value}) == [1]


@pytest.mark.parametrize("value", ["forbidden", "Required", "preferred", ""])
def test_other_values_in_the_flavor_open_nothing(value):
    assert forbidden([XYZ], {"trait:CUSTOM_XYZ": value}) == [1]


@pytest.mark.parametrize(
    ("extra_specs", "properties", "place"),
    [
        ({"trait:custom_xyz": "required"}, {}, "flavor extra spec 'trait:custom_xyz'"),
        ({}, {"trait:custom_xyz": "required"}, "image property 'trait:custom_xyz'"),
    ],
    ids=["flavor's lower case", "image's lower case"],
)
def test_trait_that_cannot_be_asked_for_is_refused_before_the_rule_is_asked(
    extra_specs, properties, place
):
    with pytest.raises(Invalid) as refused:
        forbidden([XYZ], extra_specs, properties)
    assert f"{place}: " in refused.value.detail


def test_required_in_one_place_counts_whatever_the_other_says():
    assert forbidden([XYZ], XYZ, {"trait:CUSTOM_XYZ": "other"}) == []


@pytest.mark.parametrize("key", ["traits:CUSTOM_XYZ", "CUSTOM_XYZ", "Trait:CUSTOM_XYZ"])
def test_metadata_without_the_prefix_say_nothing(key):
    assert forbidden([{key: "required"}]) == []


@pytest.mark.parametrize(
    "name",
    ["custom_xyz", "CUSTOM_xyz", "CUSTOM_XYZ ", " CUSTOM_XYZ", "CUSTOM_XY", "CUSTOM_XYZ2", ""],
)
def test_trait_names_are_compared_exactly(name):
    assert forbidden([{f"trait:{name}": "required"}], XYZ, XYZ) == [1]


# Everything by which a request requires a trait.


@pytest.mark.parametrize(
    "key", ["trait1:CUSTOM_XYZ", "trait_DISK:CUSTOM_XYZ", "trait-a_9:CUSTOM_XYZ"]
)
def test_trait_of_a_suffixed_group_opens_the_aggregate(key):
    assert forbidden([XYZ], {key: "required"}) == []
    assert forbidden([XYZ], properties={key: "required"}) == []


def test_traits_of_several_groups_count_together():
    several = {"trait1:CUSTOM_XYZ": "required", "trait2:CUSTOM_WINDOWS_LICENSED": "required"}
    assert forbidden([WINDOWS | XYZ], several) == []
    assert forbidden([WINDOWS | XYZ], {"trait1:CUSTOM_XYZ": "required"}, WINDOWS) == []
    assert forbidden([WINDOWS | XYZ], {"trait1:CUSTOM_XYZ": "required"}) == [1]


def test_trait_that_a_suffixed_group_forbids_opens_nothing():
    assert forbidden([XYZ], {"trait1:CUSTOM_XYZ": "forbidden"}) == [1]
    assert forbidden([XYZ], properties={"trait1:CUSTOM_XYZ": "forbidden"}) == [1]


UEFI = {"hw_firmware_type": "uefi"}


@pytest.mark.parametrize(
    ("trait", "extra_specs", "properties"),
    [
        ("COMPUTE_SECURITY_TPM_2_0", {"hw:tpm_version": "2.0"}, {}),
        ("COMPUTE_SECURITY_TPM_1_2", {}, {"hw_tpm_version": "1.2"}),
        ("COMPUTE_SECURITY_TPM_TIS", {"hw:tpm_version": "2.0"}, {}),
        ("COMPUTE_SECURITY_TPM_CRB", {"hw:tpm_version": "2.0", "hw:tpm_model": "tpm-crb"}, {}),
        ("COMPUTE_SECURITY_UEFI_SECURE_BOOT", {"os:secure_boot": "required"}, {}),
        ("COMPUTE_SECURITY_UEFI_SECURE_BOOT", {}, {"os_secure_boot": "required"}),
        ("HW_CPU_HYPERTHREADING", {"hw:cpu_thread_policy": "require"}, {}),
        ("COMPUTE_ADDRESS_SPACE_EMULATED", {"hw:maxphysaddr_mode": "emulate"}, {}),
        ("COMPUTE_SOCKET_PCI_NUMA_AFFINITY", {"hw:pci_numa_affinity_policy": "socket"}, {}),
        ("HW_CPU_X86_AMD_SEV", {"hw:mem_encryption": "true"}, UEFI),
        ("COMPUTE_SECURITY_STATELESS_FIRMWARE", {}, UEFI | {"hw_firmware_stateless": "true"}),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_trait_that_another_key_is_translated_to_opens_the_aggregate(
    trait, extra_specs, properties
):
    reserved = [{f"trait:{trait}": "required"}]
    assert forbidden(reserved, extra_specs, properties) == []
    assert forbidden(reserved) == [1]


def test_threads_that_are_kept_apart_do_not_open_hosts_for_hyperthreading():
    reserved = [{"trait:HW_CPU_HYPERTHREADING": "required"}]
    assert forbidden(reserved, {"hw:cpu_thread_policy": "isolate"}) == [1]


def test_traits_of_ports_and_accelerators_open_the_aggregate():
    wanted = {"requester_id": "port", "resources": {"CUSTOM_BW": 1}}
    by = {"requested_resources": [wanted | {"required_traits": ["CUSTOM_XYZ"]}]}
    against = {"requested_resources": [wanted | {"forbidden_traits": ["CUSTOM_XYZ"]}]}
    assert forbidden([XYZ], **by) == []
    assert forbidden([XYZ, WINDOWS | XYZ], WINDOWS, **by) == []
    assert forbidden([XYZ], **against) == [1]


def test_traits_of_the_root_that_no_flavor_or_image_asks_for_open_nothing():
    """As in nova: what callers and other request filters ask of the root provider is not heeded."""
    assert forbidden([XYZ], request_level_params={"root_required": ["CUSTOM_XYZ"]}) == [1]


# Beside what the request says of aggregates itself.


def test_aggregates_forbidden_before_stay_forbidden():
    before = {"requested_destination": {"forbidden_aggregates": [str(UUID(int=9))]}}
    assert forbidden([WINDOWS], **before) == [9, 1]
    assert forbidden([WINDOWS], properties=WINDOWS, **before) == [9]


def test_aggregate_forbidden_twice_is_named_once():
    before = {"requested_destination": {"forbidden_aggregates": [str(UUID(int=1))]}}
    outcome = ForbiddenAggregates().apply(a_spec(**before), AWorld.of(WINDOWS))
    assert outcome.spec.destination.forbidden_aggregates == (str(UUID(int=1)),)


def test_aggregate_forbidden_before_in_another_spelling_is_named_once():
    capitals = f"{str(UUID(int=10)).upper()},{str(UUID(int=1)).replace('-', '')}"
    asked = a_spec(requested_destination={"forbidden_aggregates": [capitals]})
    outcome = ForbiddenAggregates().apply(asked, AWorld.of(WINDOWS))
    assert outcome.spec.destination.forbidden_aggregates == (capitals,)
    assert outcome.changes == {}


def test_aggregate_that_the_request_requires_is_forbidden_all_the_same():
    reserved = str(UUID(int=1))
    asked = a_spec(requested_destination={"aggregates": [reserved]})
    destination = ForbiddenAggregates().apply(asked, AWorld.of(WINDOWS)).spec.destination
    assert destination.aggregates == (reserved,)
    assert destination.forbidden_aggregates == (reserved,)


def test_required_aggregates_and_host_of_the_request_stay():
    asked = a_spec(requested_destination={"aggregates": ["a,b"], "host": "cn1"})
    destination = ForbiddenAggregates().apply(asked, AWorld.of(WINDOWS)).spec.destination
    assert (destination.aggregates, destination.host) == (("a,b",), "cn1")


# Switching it on.


def test_filter_is_off_by_default():
    assert not ForbiddenAggregates().enabled(settings_with())


NAMES = ["enable_isolated_aggregate_filtering", "enable_forbidden_aggregates_filter"]


@pytest.mark.parametrize("name", NAMES)
def test_both_names_work_in_a_file(name, tmp_path):
    file = tmp_path / "a.conf"
    file.write_text(f"[scheduler]\n{name} = true\n")
    settings = Settings.from_conf(read_files(make_full_conf(), [str(file)]))
    assert ForbiddenAggregates().enabled(settings)


@pytest.mark.parametrize("name", NAMES)
def test_both_names_work_in_the_environment(name, monkeypatch):
    monkeypatch.setitem(os.environ, f"OS_SCHEDULER__{name.upper()}", "true")
    assert ForbiddenAggregates().enabled(Settings.from_conf(read_files(make_full_conf())))


@pytest.mark.parametrize("name", NAMES)
def test_both_names_work_in_overrides(name):
    assert ForbiddenAggregates().enabled(settings_with(**{f"scheduler__{name}": True}))


# The rule against a naive model.

TRAITS = st.sampled_from(["A", "B", "C", "D"])
METADATA = st.dictionaries(
    TRAITS.map("trait:{}".format), st.sampled_from(["required", "required", "forbidden", ""])
)
EXTRA_SPECS = st.dictionaries(
    st.builds("trait{}:{}".format, st.sampled_from(["", "1"]), TRAITS),
    st.sampled_from(["required", "required", "forbidden"]),
)


@given(st.lists(METADATA, max_size=6), EXTRA_SPECS, METADATA)
def test_forbidden_are_exactly_the_aggregates_that_a_naive_model_forbids(
    metadata, extra_specs, properties
):
    # What the flavor forbids and the image requires is refused as a contradiction.
    assume(not any(extra_specs.get(key) == "forbidden" for key in properties))
    has = {
        key.partition(":")[2]
        for source in (extra_specs, properties)
        for key in source
        if source[key] == "required"
    }
    expected = []
    for number, each in enumerate(metadata, start=1):
        needs = {key.removeprefix("trait:") for key in each if each[key] == "required"}
        if not needs <= has:
            expected.append(number)
    assert forbidden(metadata, extra_specs, properties) == expected


# From end to end

SWITCH = "scheduler__enable_isolated_aggregate_filtering"


@pytest.mark.parametrize(
    ("extra_specs", "properties", "hosts"),
    [
        ({}, {}, ["cn1"]),
        ({"hw:tpm_version": "2.0"}, {}, ["tpm1"]),
        ({}, {"hw_tpm_version": "2.0"}, ["tpm1"]),
        ({}, WINDOWS, ["win1"]),
        (WINDOWS, {}, ["win1"]),
    ],
    ids=["nothing", "flavor's TPM", "image's TPM", "licensed image", "licensed flavor"],
)
def test_reserved_hosts_take_those_who_ask_and_others_stay_off(
    sqlite_app, extra_specs, properties, hosts
):
    tpm = ["COMPUTE_SECURITY_TPM_2_0", "COMPUTE_SECURITY_TPM_TIS"]
    keeper = "COMPUTE_SECURITY_TPM_SECRET_SECURITY_USER"
    put_hosts(sqlite_app, cn1=[], win1=["CUSTOM_WINDOWS_LICENSED"], tpm1=[*tpm, keeper])
    reserves = {
        "win1": put_aggregate(sqlite_app, 1, WINDOWS, "win1"),
        "tpm1": put_aggregate(sqlite_app, 2, {f"trait:{tpm[0]}": "required"}, "tpm1"),
    }
    asked = spec(flavor=flavor(extra_specs=extra_specs), image={"properties": properties})
    told = explained(sqlite_app, asked, **{SWITCH: True})
    assert told.hosts == hosts
    closed = [uuid for host, uuid in reserves.items() if host not in hosts]
    assert told.told_by("forbidden_aggregates") == {
        "applied": True,
        "changes": {"forbidden_aggregates": closed},
    }
    assert told.query["member_of"] == [f"!in:{','.join(closed)}"]
