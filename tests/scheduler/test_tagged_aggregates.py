# SPDX-License-Identifier: Apache-2.0
"""Which aggregates are tagged with the traits of a request."""

import pytest

from placement_sched.scheduler.tagged_aggregates import policy, required_traits, tagged_with
from tests.support.states import a_spec, aggregates, settings_with

A, B = {"trait:CUSTOM_A": "required"}, {"trait:CUSTOM_B": "required"}


def test_required_traits_are_those_of_flavor_image_and_groups():
    port = {"requester_id": "port", "resources": {"X": 1}, "required_traits": ["CUSTOM_D"]}
    asked = a_spec(
        A | {"trait1:CUSTOM_C": "required", "trait:CUSTOM_NOT": "forbidden"},
        B | {"trait7:CUSTOM_E": "required", "hw_tpm_version": "2.0"},
        requested_resources=[port],
        request_level_params={"root_required": ["CUSTOM_ROOT"]},
    )
    tpm = {"COMPUTE_SECURITY_TPM_2_0", "COMPUTE_SECURITY_TPM_TIS"}
    assert required_traits(asked) == {f"CUSTOM_{one}" for one in "ABCDE"} | tpm


def test_aggregates_are_told_by_trait_and_traits_without_one_left_out():
    world = aggregates(B, A | B, {"trait:CUSTOM_A": "forbidden"}, {"CUSTOM_A": "required"})
    one, two = (aggregate.uuid for aggregate in world[:2])
    found = tagged_with({"CUSTOM_B", "CUSTOM_A", "CUSTOM_C"}, world)
    assert list(found.items()) == [("CUSTOM_A", [two]), ("CUSTOM_B", [one, two])]


@pytest.mark.parametrize("value", ["off", "prefer", "require"])
def test_policy_is_the_operators(value):
    assert policy(settings_with()) == "off"
    assert policy(settings_with(scheduler__required_aggregates_by_trait=value)) == value
