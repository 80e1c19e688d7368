"""forbidden_aggregates: every example of the spec, the rule's edges, and a naive model of it."""

import os
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placement_sched.config import Settings
from placement_sched.config.process import read_files
from placement_sched.scheduler.loading import full_conf
from placement_sched.scheduler.request_filters.forbidden_aggregates import ForbiddenAggregates
from tests.scheduler.states import a_spec, aggregates, settings_with

WINDOWS = {"trait:CUSTOM_WINDOWS_LICENSED": "required"}
XYZ = {"trait:CUSTOM_XYZ": "required"}


class Cloud:
    def __init__(self, *metadata):
        self.aggregates = aggregates(*metadata)

    def host_aggregates(self):
        return self.aggregates


def forbidden(metadata, extra_specs=None, properties=None, **fields):
    """Return the numbers of the aggregates that the request may not use."""
    spec = a_spec(extra_specs, properties, **fields)
    outcome = ForbiddenAggregates().apply(spec, Cloud(*metadata))
    uuids = outcome.spec.destination.forbidden_aggregates
    added = [uuid for uuid in uuids if uuid not in spec.destination.forbidden_aggregates]
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


@pytest.mark.parametrize("value", ["forbidden", "Required", "preferred"])
def test_other_values_in_the_request_open_nothing(value):
    assert forbidden([XYZ], {"trait:CUSTOM_XYZ": value}) == [1]
    assert forbidden([XYZ], properties={"trait:CUSTOM_XYZ": value}) == [1]


def test_required_in_one_place_counts_whatever_the_other_says():
    assert forbidden([XYZ], XYZ, {"trait:CUSTOM_XYZ": "other"}) == []


@pytest.mark.parametrize("key", ["traits:CUSTOM_XYZ", "CUSTOM_XYZ", "Trait:CUSTOM_XYZ"])
def test_metadata_without_the_prefix_say_nothing(key):
    assert forbidden([{key: "required"}]) == []


def test_trait_names_are_compared_exactly():
    assert forbidden([XYZ], {"trait:custom_xyz": "required"}) == [1]


def test_trait_of_a_suffixed_group_opens_the_aggregate():
    assert forbidden([XYZ], {"trait1:CUSTOM_XYZ": "required"}) == []
    assert forbidden([XYZ], {"trait_DISK:CUSTOM_XYZ": "required"}) == []


def test_aggregates_forbidden_before_stay_forbidden():
    before = {"requested_destination": {"forbidden_aggregates": [str(UUID(int=9))]}}
    assert forbidden([WINDOWS], **before) == [9, 1]
    assert forbidden([WINDOWS], properties=WINDOWS, **before) == [9]


def test_aggregate_forbidden_twice_is_named_once():
    before = {"requested_destination": {"forbidden_aggregates": [str(UUID(int=1))]}}
    spec = a_spec(**before)
    outcome = ForbiddenAggregates().apply(spec, Cloud(WINDOWS))
    assert outcome.spec.destination.forbidden_aggregates == (str(UUID(int=1)),)


def test_required_aggregates_and_host_of_the_request_stay():
    spec = a_spec(requested_destination={"aggregates": ["a,b"], "host": "cn1"})
    destination = ForbiddenAggregates().apply(spec, Cloud(WINDOWS)).spec.destination
    assert (destination.aggregates, destination.host) == (("a,b",), "cn1")


# Switching it on.


def test_filter_is_off_by_default():
    assert not ForbiddenAggregates().enabled(settings_with())


NAMES = ["enable_isolated_aggregate_filtering", "enable_forbidden_aggregates_filter"]


@pytest.mark.parametrize("name", NAMES)
def test_both_names_work_in_a_file(name, tmp_path):
    file = tmp_path / "a.conf"
    file.write_text(f"[scheduler]\n{name} = true\n")
    settings = Settings.from_conf(read_files(full_conf(), [str(file)]))
    assert ForbiddenAggregates().enabled(settings)


@pytest.mark.parametrize("name", NAMES)
def test_both_names_work_in_the_environment(name, monkeypatch):
    monkeypatch.setitem(os.environ, f"OS_SCHEDULER__{name.upper()}", "true")
    assert ForbiddenAggregates().enabled(Settings.from_conf(read_files(full_conf())))


@pytest.mark.parametrize("name", NAMES)
def test_both_names_work_in_overrides(name):
    assert ForbiddenAggregates().enabled(settings_with(**{f"scheduler__{name}": True}))


# The rule against a naive model.

TRAITS = st.sampled_from(["A", "B", "C", "D"])
VALUES = st.sampled_from(["required", "required", "forbidden", ""])
METADATA = st.dictionaries(TRAITS.map("trait:{}".format), VALUES)


@given(st.lists(METADATA, max_size=6), METADATA, METADATA)
def test_forbidden_are_exactly_the_aggregates_that_a_naive_model_forbids(
    metadata, extra_specs, properties
):
    has = {
        key for source in (extra_specs, properties) for key in source if source[key] == "required"
    }
    expected = []
    for number, each in enumerate(metadata, start=1):
        needs = {key for key in each if each[key] == "required"}
        if not needs <= has:
            expected.append(number)
    assert forbidden(metadata, extra_specs, properties) == expected
