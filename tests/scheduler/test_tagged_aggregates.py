# SPDX-License-Identifier: Apache-2.0
"""Aggregates with the traits of a request."""

import pytest

from placement_sched.scheduler.request_groups import (
    required_traits,
    tagged_aggregates_policy,
    tagged_with,
)
from tests.support.states import build_aggregates, build_spec, settings_with

A, B = {"trait:CUSTOM_A": "required"}, {"trait:CUSTOM_B": "required"}


def test_required_traits_are_those_of_flavor_image_and_groups():
    port = {"requester_id": "port", "resources": {"X": 1}, "required_traits": ["CUSTOM_D"]}
    request = build_spec(
        A | {"trait1:CUSTOM_C": "required", "trait:CUSTOM_NOT": "forbidden"},
        B | {"trait7:CUSTOM_E": "required", "hw_tpm_version": "2.0"},
        requested_resources=[port],
        request_level_params={"root_required": ["CUSTOM_ROOT"]},
    )
    tpm = {"COMPUTE_SECURITY_TPM_2_0", "COMPUTE_SECURITY_TPM_TIS"}
    assert required_traits(request) == {f"CUSTOM_{entry}" for entry in "ABCDE"} | tpm


def test_aggregates_are_listed_by_the_trait_that_reserves_them():
    world = build_aggregates(B, A | B, {"trait:CUSTOM_A": "forbidden"}, {"CUSTOM_A": "required"})
    first, second = (aggregate.uuid for aggregate in world[:2])
    result = tagged_with({"CUSTOM_B", "CUSTOM_A", "CUSTOM_C"}, world)
    assert list(result.items()) == [("CUSTOM_A", [second]), ("CUSTOM_B", [first, second])]


@pytest.mark.parametrize("value", ["off", "prefer", "require"])
def test_policy_of_required_aggregates_by_trait_is_off_unless_configured(value):
    assert tagged_aggregates_policy(settings_with()) == "off"
    assert (
        tagged_aggregates_policy(settings_with(scheduler__required_aggregates_by_trait=value))
        == value
    )
