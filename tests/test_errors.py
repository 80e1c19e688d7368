# SPDX-License-Identifier: Apache-2.0
"""Errors with and without the path of a fault."""

from placement_sched.errors import Error
from placement_sched.schemas.validation import describe_fault


def test_json_path_of_an_error_is_in_its_detail_and_its_fault():
    error = Error("there is no host 'x'", json_path="$.hosts[0]")
    assert error.detail == "there is no host 'x' (at $.hosts[0])"
    assert describe_fault(error.fault) == "there is no host 'x'"
    assert error.fault["path"] == "$.hosts[0]"


def test_error_without_a_json_path_has_no_fault():
    assert Error("No host fits (2 are down)").fault is None
