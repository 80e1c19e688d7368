# SPDX-License-Identifier: Apache-2.0
"""Warnings about extra specs that can have no effect."""

import pytest

from tests.support.scheduling import explain_request, make_flavor, make_report, make_spec

BOTH_FILTERS = ["ComputeCapabilitiesFilter", "AggregateInstanceExtraSpecsFilter"]
PREFIXES = (
    "aggregate_instance_extra_specs: and enable AggregateInstanceExtraSpecsFilter, or with "
    "capabilities:"
)
OPERATORS = "!=, <=, <all-in>, <in>, <or>, =, ==, >=, s!=, s<, s<=, s==, s>, s>="


@pytest.fixture(scope="module")
def cloud(make_shared_app):
    app = make_shared_app()
    report = make_report("cn1", stats={"gpus": "4"}, cpu_info={"features": ["avx"]})
    app.post_json("/scheduler/v1/compute_nodes", [report])
    return app


def list_warnings(cloud, extra_specs, *filters, **more):
    response = explain_request(
        cloud,
        make_spec(flavor=make_flavor(extra_specs=extra_specs)),
        overrides={"filter_scheduler.enabled_filters": list(filters)},
        **more,
    )
    return [warning["detail"] for warning in response["funnel"].get("warnings", ())]


@pytest.mark.parametrize(
    ("key", "value", "filters", "reason"),
    [
        (
            "capabilities:vcpus_total",
            "> 4",
            BOTH_FILTERS,
            f": '>' is not an operator, so '> 4' is compared as text. Use {OPERATORS}",
        ),
        (
            "gpus",
            "<is> 4",
            BOTH_FILTERS[:1],
            f": '<is>' is not an operator, so '<is> 4' is compared as text. Use {OPERATORS}",
        ),
        (
            "aggregate_instance_extra_specs:ssd",
            ">=4",
            BOTH_FILTERS,
            ": '>=4' is compared as text. Set a blank after the operator '>='",
        ),
        (
            "capabilities:gpus",
            "<in>",
            BOTH_FILTERS,
            " matches no host: the operator '<in>' has no value",
        ),
        (
            "capabilities:free_ram_mb",
            "=> 4",
            BOTH_FILTERS,
            f": '=>' is not an operator, so '=> 4' is compared as text. Use {OPERATORS}",
        ),
        (
            "capabilities:gpus",
            "4",
            BOTH_FILTERS[1:],
            " has no effect: ComputeCapabilitiesFilter is not enabled",
        ),
        ("free_ram_mb", "1", [], " has no effect: ComputeCapabilitiesFilter is not enabled"),
        (
            "aggregate_instance_extra_specs:ssd",
            "true",
            [],
            " has no effect: AggregateInstanceExtraSpecsFilter is not enabled",
        ),
        (
            "trust:trusted_host",
            "trusted",
            BOTH_FILTERS,
            " has no effect: TrustedFilter is not enabled",
        ),
        (
            "capabilties:gpus",
            "4",
            BOTH_FILTERS[:1],
            (
                " has no effect: "
                "no filter or weigher reads the prefix 'capabilties'. Did you mean 'capabilities'?"
            ),
        ),
        (
            "resource:VCPU",
            "4",
            [],
            (
                " has no effect: "
                "no filter or weigher reads the prefix 'resource'. Did you mean 'resources'?"
            ),
        ),
        (
            " trait:CUSTOM_A",
            "required",
            [],
            " has no effect: no filter or weigher reads the prefix ' trait'. Did you mean 'trait'?",
        ),
        (
            "hw:cpu_polcy",
            "dedicated",
            [],
            " has no effect: nova has no such extra spec. Did you mean 'hw:cpu_policy'?",
        ),
        (
            "ssd",
            "true",
            BOTH_FILTERS[:1],
            (
                " has no effect: "
                f"no enabled filter reads this key without a prefix. Prefix it with {PREFIXES}"
            ),
        ),
    ],
)
def test_extra_spec_without_effect_or_with_a_wrong_operator_is_explained(
    cloud, key, value, filters, reason
):
    assert list_warnings(cloud, {key: value}, *filters) == [f"{key}{reason}"]


def test_extra_specs_with_an_effect_cause_no_warning(cloud):
    extra_specs = {
        "capabilities:gpus": ">= 4",
        "gpus": "<or> 2 <or> 4",
        "aggregate_instance_extra_specs:ssd": "true",
        "ssd": "s== true",
        "hw:watchdog_action": "none",
        "hw:numa_mem.0": "512",
        "quota:cpu_shares": "10",
        "hide_hypervisor_id": "true",
        "resources:VCPU": "1",
        "group_policy": "none",
    }
    assert list_warnings(cloud, extra_specs, *BOTH_FILTERS) == []


def test_at_most_ten_extra_specs_without_effect_are_listed(cloud):
    assert len(list_warnings(cloud, {f"key{number}": "x" for number in range(12)})) == 10
