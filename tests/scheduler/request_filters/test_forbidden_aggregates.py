# SPDX-License-Identifier: Apache-2.0
"""Aggregates that a request may not use: examples of the spec, and a naive model."""

import os
from uuid import UUID

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from placement_sched.config.conf import read_files
from placement_sched.config.settings import Settings
from placement_sched.scheduler.plugins import make_full_conf
from placement_sched.scheduler.request_filters.forbidden_aggregates import ForbiddenAggregates
from tests.scheduler.explanations import explain_request, put_aggregate, put_hosts
from tests.scheduler.fake_cloud import FakeCloud
from tests.support.scheduling import make_flavor, make_spec
from tests.support.states import build_settings, build_spec

WINDOWS_TRAIT = {"trait:CUSTOM_WINDOWS_LICENSED": "required"}
XYZ_TRAIT = {"trait:CUSTOM_XYZ": "required"}


def find_forbidden_aggregates(metadata, extra_specs=None, properties=None, **fields):
    """Return the numbers of the aggregates that the request may not use."""
    request = build_spec(extra_specs, properties, **fields)
    outcome = ForbiddenAggregates().apply(request, FakeCloud.with_metadata(*metadata))
    uuids = outcome.spec.destination.forbidden_aggregates
    added = [uuid for uuid in uuids if uuid not in request.destination.forbidden_aggregates]
    assert list(outcome.changes.get("forbidden_aggregates", [])) == added
    return [UUID(uuid).int for uuid in uuids]


BOTH_TRAITS = WINDOWS_TRAIT | XYZ_TRAIT


@pytest.mark.parametrize(
    ("metadata", "extra_specs", "properties", "expected"),
    [
        # The spec's first example: an image without properties must not use the licensed
        # hosts.
        ([WINDOWS_TRAIT], {}, {}, [1]),
        ([WINDOWS_TRAIT], {}, WINDOWS_TRAIT, []),
        ([WINDOWS_TRAIT], {}, {"os_distro": "windows"}, [1]),
        # The spec's second example: traits from both the flavor and the image.
        ([BOTH_TRAITS], {}, {}, [1]),
        ([BOTH_TRAITS], WINDOWS_TRAIT, {}, [1]),
        ([BOTH_TRAITS], {}, XYZ_TRAIT, [1]),
        ([BOTH_TRAITS], WINDOWS_TRAIT, XYZ_TRAIT, []),
        ([BOTH_TRAITS], XYZ_TRAIT, WINDOWS_TRAIT, []),
        ([BOTH_TRAITS], BOTH_TRAITS, {}, []),
        ([BOTH_TRAITS], {}, BOTH_TRAITS, []),
        ([BOTH_TRAITS], WINDOWS_TRAIT | {"trait:CUSTOM_OTHER": "required"}, {}, [1]),
        ([WINDOWS_TRAIT, {}, XYZ_TRAIT, BOTH_TRAITS], {}, XYZ_TRAIT, [1, 4]),
        ([XYZ_TRAIT], XYZ_TRAIT, {"trait:CUSTOM_XYZ": "other"}, []),
        # Traits of a request group with a suffix.
        ([XYZ_TRAIT], {"trait1:CUSTOM_XYZ": "forbidden"}, {}, [1]),
        ([XYZ_TRAIT], {}, {"trait1:CUSTOM_XYZ": "forbidden"}, [1]),
        (
            [BOTH_TRAITS],
            {"trait1:CUSTOM_XYZ": "required", "trait2:CUSTOM_WINDOWS_LICENSED": "required"},
            {},
            [],
        ),
        ([BOTH_TRAITS], {"trait1:CUSTOM_XYZ": "required"}, WINDOWS_TRAIT, []),
        ([BOTH_TRAITS], {"trait1:CUSTOM_XYZ": "required"}, {}, [1]),
        (
            [{"trait:HW_CPU_HYPERTHREADING": "required"}],
            {"hw:cpu_thread_policy": "isolate"},
            {},
            [1],
        ),
    ],
)
def test_aggregate_is_forbidden_unless_the_request_requires_all_its_traits(
    metadata, extra_specs, properties, expected
):
    assert find_forbidden_aggregates(metadata, extra_specs, properties) == expected


@pytest.mark.parametrize("value", ["forbidden", "Required", "required ", "preferred", "", "true"])
def test_trait_metadata_reserve_an_aggregate_only_with_the_value_required(value):
    assert find_forbidden_aggregates([{"trait:CUSTOM_XYZ": value}]) == []
    assert find_forbidden_aggregates([XYZ_TRAIT], {"trait:CUSTOM_XYZ": value}) == [1]
    assert find_forbidden_aggregates([XYZ_TRAIT], properties={"trait:CUSTOM_XYZ": value}) == [1]


@pytest.mark.parametrize("key", ["traits:CUSTOM_XYZ", "CUSTOM_XYZ", "Trait:CUSTOM_XYZ"])
def test_aggregate_metadata_without_the_trait_prefix_forbid_no_aggregate(key):
    assert find_forbidden_aggregates([{key: "required"}]) == []


@pytest.mark.parametrize(
    "name",
    ["custom_xyz", "CUSTOM_xyz", "CUSTOM_XYZ ", " CUSTOM_XYZ", "CUSTOM_XY", "CUSTOM_XYZ2", ""],
)
def test_trait_names_are_compared_exactly(name):
    assert find_forbidden_aggregates([{f"trait:{name}": "required"}], XYZ_TRAIT, XYZ_TRAIT) == [1]


@pytest.mark.parametrize(
    "key", ["trait1:CUSTOM_XYZ", "trait_DISK:CUSTOM_XYZ", "trait-a_9:CUSTOM_XYZ"]
)
def test_trait_of_a_suffixed_group_allows_the_aggregate(key):
    assert find_forbidden_aggregates([XYZ_TRAIT], {key: "required"}) == []
    assert find_forbidden_aggregates([XYZ_TRAIT], properties={key: "required"}) == []


@pytest.mark.parametrize(
    ("traits", "expected"),
    [({"required_traits": ["CUSTOM_XYZ"]}, [2]), ({"forbidden_traits": ["CUSTOM_XYZ"]}, [1, 2])],
)
def test_required_traits_of_ports_allow_the_aggregate(traits, expected):
    port = {"requester_id": "port", "resources": {"CUSTOM_BW": 1}, **traits}
    assert (
        find_forbidden_aggregates([XYZ_TRAIT, BOTH_TRAITS], requested_resources=[port]) == expected
    )


def test_root_traits_from_callers_allow_no_reserved_aggregate_as_in_nova():
    assert find_forbidden_aggregates(
        [XYZ_TRAIT], request_level_params={"root_required": ["CUSTOM_XYZ"]}
    ) == [1]


def test_aggregates_that_the_request_forbids_stay_forbidden():
    fields = {"requested_destination": {"forbidden_aggregates": [str(UUID(int=9))]}}
    assert find_forbidden_aggregates([WINDOWS_TRAIT], **fields) == [9, 1]
    assert find_forbidden_aggregates([WINDOWS_TRAIT], properties=WINDOWS_TRAIT, **fields) == [9]


@pytest.mark.parametrize(
    "uuids",
    [str(UUID(int=1)), f"{str(UUID(int=10)).upper()},{str(UUID(int=1)).replace('-', '')}"],
    ids=["same spelling", "other spelling"],
)
def test_aggregate_that_the_request_already_forbids_is_listed_once(uuids):
    request = build_spec(requested_destination={"forbidden_aggregates": [uuids]})
    outcome = ForbiddenAggregates().apply(request, FakeCloud.with_metadata(WINDOWS_TRAIT))
    assert outcome.spec.destination.forbidden_aggregates == (uuids,)
    assert outcome.changes == {}


ISOLATION_OPTION_NAMES = [
    "enable_isolated_aggregate_filtering",
    "enable_forbidden_aggregates_filter",
]


@pytest.mark.parametrize("name", ISOLATION_OPTION_NAMES)
def test_both_option_names_enable_the_forbidden_aggregates_filter(name, tmp_path, monkeypatch):
    filter_ = ForbiddenAggregates()
    assert not filter_.enabled(build_settings())
    assert filter_.enabled(build_settings(**{f"scheduler__{name}": True}))
    file = tmp_path / "a.conf"
    file.write_text(f"[scheduler]\n{name} = true\n")
    assert filter_.enabled(Settings.from_conf(read_files(make_full_conf(), [str(file)])))
    monkeypatch.setitem(os.environ, f"OS_SCHEDULER__{name.upper()}", "true")
    assert filter_.enabled(Settings.from_conf(read_files(make_full_conf())))


TRAIT_NAMES = st.sampled_from(["A", "B", "C", "D"])
TRAIT_METADATA = st.dictionaries(
    TRAIT_NAMES.map("trait:{}".format), st.sampled_from(["required", "required", "forbidden", ""])
)
TRAIT_EXTRA_SPECS = st.dictionaries(
    st.builds("trait{}:{}".format, st.sampled_from(["", "1"]), TRAIT_NAMES),
    st.sampled_from(["required", "required", "forbidden"]),
)


@given(st.lists(TRAIT_METADATA, max_size=6), TRAIT_EXTRA_SPECS, TRAIT_METADATA)
def test_forbidden_aggregates_equal_those_of_a_naive_model(metadata, extra_specs, properties):
    # A trait that the flavor forbids and the image requires is rejected as a contradiction.
    assume(not any(extra_specs.get(key) == "forbidden" for key in properties))
    required_traits = {
        key.partition(":")[2]
        for source in (extra_specs, properties)
        for key in source
        if source[key] == "required"
    }
    expected = []
    for number, entry in enumerate(metadata, start=1):
        aggregate_traits = {key.removeprefix("trait:") for key in entry if entry[key] == "required"}
        if not aggregate_traits <= required_traits:
            expected.append(number)
    assert find_forbidden_aggregates(metadata, extra_specs, properties) == expected


ISOLATION_OPTION = "scheduler__enable_isolated_aggregate_filtering"


def test_hosts_of_reserved_aggregates_get_only_requests_for_their_trait(sqlite_app):
    tpm = ["COMPUTE_SECURITY_TPM_2_0", "COMPUTE_SECURITY_TPM_TIS"]
    owner_trait = "COMPUTE_SECURITY_TPM_SECRET_SECURITY_USER"
    put_hosts(sqlite_app, cn1=[], win1=["CUSTOM_WINDOWS_LICENSED"], tpm1=[*tpm, owner_trait])
    uuids = {
        "win1": put_aggregate(sqlite_app, 1, WINDOWS_TRAIT, "win1"),
        "tpm1": put_aggregate(sqlite_app, 2, {f"trait:{tpm[0]}": "required"}, "tpm1"),
    }
    for extra_specs, properties, expected in (
        ({}, {}, "cn1"),
        ({"hw:tpm_version": "2.0"}, {}, "tpm1"),
        ({}, {"hw_tpm_version": "2.0"}, "tpm1"),
        ({}, WINDOWS_TRAIT, "win1"),
        (WINDOWS_TRAIT, {}, "win1"),
    ):
        request = make_spec(
            flavor=make_flavor(extra_specs=extra_specs), image={"properties": properties}
        )
        explanation = explain_request(sqlite_app, request, **{ISOLATION_OPTION: True})
        assert explanation.hosts == [expected]
        forbidden = [uuid for host, uuid in uuids.items() if host != expected]
        result = explanation.get_request_filter_report("forbidden_aggregates")
        assert result == {"applied": True, "changes": {"forbidden_aggregates": forbidden}}
        assert explanation.query["member_of"] == [f"!in:{','.join(forbidden)}"]
