# SPDX-License-Identifier: Apache-2.0
"""Errors with the place of a fault, and without."""

from placement_sched.errors import Error
from placement_sched.schemas.faults import plain_reason


def test_an_error_with_a_place_has_it_as_data_too():
    error = Error("there is no host 'x'", json_path="$.hosts[0]")
    assert error.detail == "there is no host 'x' (at $.hosts[0])"
    assert plain_reason(error.fault) == "there is no host 'x'"
    assert error.fault["path"] == "$.hosts[0]"


def test_an_error_without_a_place_has_no_fault():
    assert Error("No host fits (2 are down)").fault is None
