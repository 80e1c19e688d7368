# SPDX-License-Identifier: Apache-2.0
"""ephemeral_encryption_filter: encrypted local disks need hosts that can encrypt them."""

import pytest

from placement_sched.errors import Invalid
from placement_sched.scheduler.request_filters.root_traits import EphemeralEncryptionFilter
from tests.scheduler.explained import explained, put_hosts
from tests.scheduler.worlds import applied, root_required
from tests.support.scheduling import flavor, spec
from tests.support.states import a_spec, settings_with

TRAIT = "COMPUTE_EPHEMERAL_ENCRYPTION"
ON, ON_IMAGE = {"hw:ephemeral_encryption": "true"}, {"hw_ephemeral_encryption": "true"}

FORMAT, IMAGE_FORMAT = "hw:ephemeral_encryption_format", "hw_ephemeral_encryption_format"


@pytest.mark.parametrize(
    ("extra_specs", "properties", "traits"),
    [
        (ON, {}, [TRAIT]),
        ({}, ON_IMAGE, [TRAIT]),
        (ON, ON_IMAGE, [TRAIT]),
        (ON | {FORMAT: "luks"}, {}, [TRAIT, f"{TRAIT}_LUKS"]),
        (ON | {FORMAT: "luksv2"}, {}, [TRAIT, f"{TRAIT}_LUKSV2"]),
        (ON, {IMAGE_FORMAT: "plain"}, [TRAIT, f"{TRAIT}_PLAIN"]),
        ({}, ON_IMAGE | {IMAGE_FORMAT: "luks"}, [TRAIT, f"{TRAIT}_LUKS"]),
        (ON | {FORMAT: "luks"}, {IMAGE_FORMAT: "luks"}, [TRAIT, f"{TRAIT}_LUKS"]),
    ],
    ids=[
        "flavor",
        "image",
        "both",
        "flavor's format",
        "second version",
        "image's format",
        "image alone",
        "same format twice",
    ],
)
def test_encryption_and_its_format_become_traits(extra_specs, properties, traits):
    assert root_required(EphemeralEncryptionFilter, a_spec(extra_specs, properties)) == traits


@pytest.mark.parametrize(
    ("extra_specs", "properties"),
    [
        ({}, {}),
        ({"hw:ephemeral_encryption": "false"}, {}),
        ({}, {"hw_ephemeral_encryption": "false"}),
        ({FORMAT: "luks"}, {}),
        ({}, {IMAGE_FORMAT: "luks"}),
    ],
    ids=["neither", "flavor says no", "image says no", "flavor's format alone", "image's alone"],
)
def test_nothing_is_asked_where_nothing_is_to_be_encrypted(extra_specs, properties):
    assert applied(EphemeralEncryptionFilter, a_spec(extra_specs, properties)) is None


@pytest.mark.parametrize(
    ("extra_specs", "properties", "keys"),
    [
        (
            ON,
            {"hw_ephemeral_encryption": "false"},
            ["flavor extra spec 'hw:ephemeral_encryption'", "'hw_ephemeral_encryption'"],
        ),
        (
            ON | {FORMAT: "luks"},
            {IMAGE_FORMAT: "plain"},
            [f"flavor extra spec '{FORMAT}'", f"image property '{IMAGE_FORMAT}'"],
        ),
        (ON | {FORMAT: "rot13"}, {}, [f"flavor extra spec '{FORMAT}'", "'rot13'"]),
    ],
    ids=["yes and no", "two formats", "no format"],
)
def test_what_cannot_be_is_refused_by_its_keys(extra_specs, properties, keys):
    with pytest.raises(Invalid) as refused:
        applied(EphemeralEncryptionFilter, a_spec(extra_specs, properties))
    for key in keys:
        assert key in refused.value.detail


def test_filter_is_always_on():
    assert EphemeralEncryptionFilter().enabled(settings_with())


def test_hosts_without_the_traits_are_no_candidates(sqlite_app):
    put_hosts(sqlite_app, cn1=[], cn2=[TRAIT], cn3=[TRAIT, f"{TRAIT}_LUKS"])
    asked = spec(flavor=flavor(extra_specs=ON), image={"properties": {IMAGE_FORMAT: "luks"}})
    told = explained(sqlite_app, asked)
    assert told.told_by("ephemeral_encryption_filter") == {
        "applied": True,
        "changes": {"root_required": [TRAIT, f"{TRAIT}_LUKS"]},
    }
    assert told.query["root_required"] == [f"{TRAIT},{TRAIT}_LUKS,!COMPUTE_STATUS_DISABLED"]
    assert told.hosts == ["cn3"]
