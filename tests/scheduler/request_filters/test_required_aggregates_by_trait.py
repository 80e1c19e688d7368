# SPDX-License-Identifier: Apache-2.0
"""Request filter that requires the aggregates of required traits."""

from uuid import UUID

import pytest

from placement_sched.errors import Invalid
from placement_sched.model.rejection import Rejection
from placement_sched.scheduler.live_settings import with_overrides
from placement_sched.scheduler.plugins import get_plugins
from placement_sched.scheduler.request_filters.required_aggregates_by_trait import (
    RequiredAggregatesByTrait,
)
from tests.scheduler.explanations import explain_request, put_aggregate, put_hosts
from tests.scheduler.fake_cloud import FakeCloud, build_aggregate_uuids, run_request_filter
from tests.support.scheduling import make_spec
from tests.support.states import build_settings, build_spec

TRAIT_A, TRAIT_B = {"trait:CUSTOM_A": "required"}, {"trait:CUSTOM_B": "required"}
REQUIRED_AGGREGATES_OPTION = "scheduler__required_aggregates_by_trait"
ISOLATION_OPTION = "scheduler__enable_isolated_aggregate_filtering"


def find_aggregates_by_trait(metadata, extra_specs=None, properties=None, **fields):
    """Return the numbers of the aggregates for each trait, or None."""
    request = build_spec(extra_specs, properties, **fields)
    outcome = run_request_filter(
        RequiredAggregatesByTrait, request, FakeCloud.with_metadata(*metadata)
    )
    if outcome is None:
        return None
    uuids_by_trait = outcome.changes["aggregates_by_trait"]
    joined = tuple(",".join(entry) for entry in uuids_by_trait.values())
    assert outcome.spec.destination.aggregates == (*request.destination.aggregates, *joined)
    return {trait: [UUID(uuid).int for uuid in item] for trait, item in uuids_by_trait.items()}


@pytest.mark.parametrize(
    ("metadata", "extra_specs", "properties", "expected"),
    [
        ([TRAIT_A], TRAIT_A, {}, {"CUSTOM_A": [1]}),
        ([TRAIT_A], {}, TRAIT_A, {"CUSTOM_A": [1]}),
        ([{}, TRAIT_A, TRAIT_A], TRAIT_A, {}, {"CUSTOM_A": [2, 3]}),
        ([TRAIT_A, TRAIT_B], TRAIT_A | TRAIT_B, {}, {"CUSTOM_A": [1], "CUSTOM_B": [2]}),
        ([TRAIT_A | TRAIT_B], TRAIT_A, TRAIT_B, {"CUSTOM_A": [1], "CUSTOM_B": [1]}),
        ([TRAIT_A], TRAIT_A | TRAIT_B, {}, {"CUSTOM_A": [1]}),
        ([TRAIT_A], {"trait1:CUSTOM_A": "required"}, {}, {"CUSTOM_A": [1]}),
        ([TRAIT_A], {}, {"trait1:CUSTOM_A": "required"}, {"CUSTOM_A": [1]}),
        (
            [{"trait:COMPUTE_SECURITY_TPM_2_0": "required"}],
            {"hw:tpm_version": "2.0"},
            {},
            {"COMPUTE_SECURITY_TPM_2_0": [1]},
        ),
    ],
    ids=str,
)
def test_host_must_be_in_an_aggregate_of_each_trait(metadata, extra_specs, properties, expected):
    assert find_aggregates_by_trait(metadata, extra_specs, properties) == expected


@pytest.mark.parametrize(
    ("metadata", "extra_specs"),
    [
        ([TRAIT_A], {}),
        ([TRAIT_A], TRAIT_B),
        ([TRAIT_A], {"trait:CUSTOM_A": "forbidden"}),
        ([{"trait:CUSTOM_A": "forbidden"}], TRAIT_A),
        ([{"trait:CUSTOM_A": "Required"}], TRAIT_A),
        ([{"CUSTOM_A": "required"}], TRAIT_A),
        ([], TRAIT_A),
    ],
    ids=str,
)
def test_request_without_an_aggregate_of_its_traits_does_not_change(metadata, extra_specs):
    assert find_aggregates_by_trait(metadata, extra_specs) is None


def test_traits_of_ports_require_aggregates_but_root_traits_do_not():
    port = {"requester_id": "port", "resources": {"X": 1}, "required_traits": ["CUSTOM_A"]}
    assert find_aggregates_by_trait([TRAIT_A], requested_resources=[port]) == {"CUSTOM_A": [1]}
    params = {"root_required": ["CUSTOM_A"]}
    assert find_aggregates_by_trait([TRAIT_A], request_level_params=params) is None


def test_requested_and_forbidden_aggregates_restrict_those_of_a_trait():
    required = {"aggregates": [",".join(build_aggregate_uuids(7, 8))]}
    assert find_aggregates_by_trait([TRAIT_A], TRAIT_A, requested_destination=required) == {
        "CUSTOM_A": [1]
    }
    forbidden = {"forbidden_aggregates": [build_aggregate_uuids(1)[0].upper()]}
    assert find_aggregates_by_trait(
        [TRAIT_A, TRAIT_A], TRAIT_A, requested_destination=forbidden
    ) == {"CUSTOM_A": [2]}


def test_request_that_forbids_all_aggregates_of_a_trait_is_rejected():
    request = build_spec(
        TRAIT_A, requested_destination={"forbidden_aggregates": build_aggregate_uuids(1)}
    )
    assert run_request_filter(
        RequiredAggregatesByTrait, request, FakeCloud.with_metadata(TRAIT_A)
    ) == Rejection(kind="no_allowed_aggregate", values={"traits": ["CUSTOM_A"]})


def test_required_aggregates_filter_runs_last_and_only_with_the_option_value_require():
    assert get_plugins(build_settings()).request_filters[-1].name == RequiredAggregatesByTrait.name
    plugin = RequiredAggregatesByTrait()
    for value, expected in (("off", False), ("prefer", False), ("require", True)):
        assert plugin.enabled(build_settings(**{REQUIRED_AGGREGATES_OPTION: value})) == expected
    assert not plugin.enabled(build_settings())
    with pytest.raises(Invalid, match="required_aggregates_by_trait"):
        with_overrides(build_settings(), {"scheduler.required_aggregates_by_trait": "must"})


@pytest.fixture
def cloud(sqlite_app):
    """Two licensed hosts, a host with the trait outside of the aggregate, and a plain host."""
    licensed = ["CUSTOM_A"]
    put_hosts(sqlite_app, cn1=[], stray=licensed, win1=licensed, win2=licensed)
    put_aggregate(sqlite_app, 1, TRAIT_A, "win1", "win2")
    return sqlite_app


IMAGE_WITH_TRAIT_A = {"image": {"properties": TRAIT_A}}


def test_licensed_hosts_get_only_requests_for_the_trait(cloud):
    both = {REQUIRED_AGGREGATES_OPTION: "require", ISOLATION_OPTION: True}
    assert explain_request(cloud, make_spec(), **both).hosts == ["cn1", "stray"]
    licensed = explain_request(cloud, make_spec(**IMAGE_WITH_TRAIT_A), **both)
    assert licensed.hosts == ["win1", "win2"]
    assert licensed.get_request_filter_report("required_aggregates_by_trait") == {
        "applied": True,
        "changes": {"aggregates_by_trait": {"CUSTOM_A": build_aggregate_uuids(1)}},
    }
    assert licensed.query["member_of"] == [f"in:{build_aggregate_uuids(1)[0]}"]
    response = explain_request(cloud, make_spec(**IMAGE_WITH_TRAIT_A), **{ISOLATION_OPTION: True})
    assert response.hosts == ["stray", "win1", "win2"]
    assert response.get_request_filter_report("required_aggregates_by_trait") == {
        "applied": False,
        "changes": {},
    }
