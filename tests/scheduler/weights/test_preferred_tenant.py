# SPDX-License-Identifier: Apache-2.0
"""Weigher by the projects that aggregates prefer."""

import pytest

from placement_sched.scheduler.weights.preferred_tenant import PreferredTenantWeigher
from tests.scheduler.weights.weighing import find_raw_weights, run_weigher
from tests.support.states import build_aggregates, build_host_state, build_spec

TENANT_METADATA_KEY = "prefer_tenant_id"
HOST_WITHOUT_AGGREGATES = build_host_state("plain")


def weigh_host_for_project(project, *metadata):
    host = build_host_state("cn1", aggregates=build_aggregates(*metadata))
    return find_raw_weights(
        PreferredTenantWeigher, [host, HOST_WITHOUT_AGGREGATES], build_spec(project_id=project)
    )["cn1"]


@pytest.mark.parametrize(
    "metadata",
    [
        [{TENANT_METADATA_KEY: "p1"}],
        [{TENANT_METADATA_KEY: "p2, p1"}],
        [{TENANT_METADATA_KEY: "p2"}, {TENANT_METADATA_KEY: "p1"}],
        [{TENANT_METADATA_KEY: "p3", f"{TENANT_METADATA_KEY}3": "p1"}],
        [{f"{TENANT_METADATA_KEY}_more": "p2,p1"}],
    ],
)
def test_host_that_prefers_the_project_has_raw_weight_1(metadata):
    assert weigh_host_for_project("p1", *metadata) == 1.0


@pytest.mark.parametrize(
    ("project", "metadata"),
    [
        ("p1", []),
        ("p1", [{TENANT_METADATA_KEY: "p2"}]),
        ("P1", [{TENANT_METADATA_KEY: "p1"}]),
        ("p1", [{"filter_tenant_id": "p1"}]),
    ],
)
def test_preferred_tenant_weigher_does_not_run_without_an_aggregate_for_the_project(
    project, metadata
):
    host = build_host_state("cn1", aggregates=build_aggregates(*metadata))
    run = run_weigher(
        PreferredTenantWeigher, [host, HOST_WITHOUT_AGGREGATES], build_spec(project_id=project)
    )
    assert (run.reports, run.columns) == ((), ())
    assert PreferredTenantWeigher().weigh_hosts(
        [host, HOST_WITHOUT_AGGREGATES], build_spec(project_id=project)
    ) == [0, 0]
