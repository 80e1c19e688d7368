# SPDX-License-Identifier: Apache-2.0
"""Errors of this service become exceptions of nova."""

import pytest

from placement_sched import errors
from placement_sched.nova.objects import (
    NO_VALID_HOST,
    RemoteFailure,
    UnknownObject,
    UnknownVersion,
    UnreadableObject,
    build_no_valid_host,
    derive_reason,
    to_remote_failure,
)

CANDIDATES_FUNNEL_STAGE = {"query": "resources=VCPU:1", "hosts": 3}
NOT_ENOUGH_HOSTS_MESSAGE = "There are not enough hosts available."


def format_class_path(failure: Exception) -> str:
    return f"{type(failure).__module__}.{type(failure).__name__}"


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (errors.NoValidHost("none"), "nova.exception.NoValidHost"),
        (errors.Invalid("no such trait"), "nova.exception.NoValidHost"),
        (errors.NotFound("gone"), "nova.exception.NoValidHost"),
        (errors.ConcurrentUpdate("taken"), "nova.exception.NoValidHost"),
        (errors.Conflict("placed"), "nova.exception.AllocationUpdateFailed"),
        (errors.PluginFailed("raised"), "nova.exception.NovaException"),
        (errors.Unavailable("locked"), "nova.exception.NoValidHost"),
        (
            UnknownVersion("Flavor", "2.0", "spec_obj.flavor"),
            "oslo_versionedobjects.exception.IncompatibleObjectVersion",
        ),
        (UnknownObject("strange"), "oslo_versionedobjects.exception.UnsupportedObjectError"),
        (UnreadableObject("wrong"), "builtins.ValueError"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else None,
)
def test_errors_have_the_exception_classes_of_nova(error, expected):
    failure = to_remote_failure(error, ["i1"])
    assert format_class_path(failure) == expected
    if not isinstance(error, errors.NoValidHost | errors.Unavailable):
        assert error.detail in str(failure)


def test_no_valid_host_has_reason_and_message():
    failure = build_no_valid_host("None.")
    assert isinstance(failure, NO_VALID_HOST)
    assert isinstance(failure, RemoteFailure)
    assert (str(failure), failure.kwargs) == ("No valid host was found. None.", {"reason": "None."})


def test_conflict_error_names_the_instances():
    failure = to_remote_failure(errors.Conflict("it is placed"), ["i1", "i2"])
    assert failure.kwargs == {"consumer_uuid": "i1, i2", "error": "it is placed"}


@pytest.mark.parametrize(
    ("funnel", "reason"),
    [
        ({"allocation_candidates": CANDIDATES_FUNNEL_STAGE}, NOT_ENOUGH_HOSTS_MESSAGE),
        ({"allocation_candidates": {**CANDIDATES_FUNNEL_STAGE, "hosts": 0}}, ""),
        # A rebuild has no candidates query.
        ({"allocation_candidates": {"query": "", "hosts": 0}}, NOT_ENOUGH_HOSTS_MESSAGE),
        (
            {"request_filters": [{"name": "a"}, {"name": "z", "rejection": "there is no zone z"}]},
            "Scheduling failed: there is no zone z",
        ),
        ({}, NOT_ENOUGH_HOSTS_MESSAGE),
    ],
)
def test_no_valid_host_reason_is_as_short_as_in_nova(funnel, reason):
    assert derive_reason(funnel) == reason
