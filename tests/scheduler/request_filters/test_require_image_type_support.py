# SPDX-License-Identifier: Apache-2.0
"""require_image_type_support: hosts must be able to use the image's disk format."""

import pytest

from placement_sched.scheduler.request_filters.root_traits import RequireImageTypeSupport
from tests.scheduler.explained import explained, put_hosts
from tests.scheduler.worlds import applied, root_required
from tests.support.scheduling import spec
from tests.support.states import a_spec, settings_with

SWITCH = "scheduler__query_placement_for_image_type_support"


def an_image(disk_format, **fields):
    return a_spec(image={"disk_format": disk_format}, **fields)


@pytest.mark.parametrize(
    "disk_format",
    ["aki", "ami", "ari", "iso", "ploop", "qcow2", "raw", "vdi", "vhd", "vhdx", "vmdk"],
)
def test_each_of_glances_formats_has_its_trait(disk_format):
    expected = [f"COMPUTE_IMAGE_TYPE_{disk_format.upper()}"]
    assert root_required(RequireImageTypeSupport, an_image(disk_format)) == expected


@pytest.mark.parametrize(
    "asked",
    [
        an_image("qcow2", is_bfv=True),
        an_image("parchment"),
        an_image(""),
        an_image(None),
        a_spec(image=None),
    ],
    ids=["volume", "format without a trait", "empty format", "no format", "no image"],
)
def test_nothing_is_asked_where_the_format_does_not_matter(asked):
    assert applied(RequireImageTypeSupport, asked) is None


def test_trait_that_is_asked_already_is_asked_once():
    asked = an_image(
        "raw", request_level_params={"root_required": ["COMPUTE_IMAGE_TYPE_RAW", "CUSTOM_A"]}
    )
    outcome = applied(RequireImageTypeSupport, asked)
    assert (outcome.spec, outcome.changes) == (asked, {})


def test_filter_is_off_by_default():
    plugin = RequireImageTypeSupport()
    assert not plugin.enabled(settings_with())
    assert plugin.enabled(settings_with(**{SWITCH: True}))


def test_hosts_without_the_format_are_no_candidates(sqlite_app):
    put_hosts(sqlite_app, cn1=["COMPUTE_IMAGE_TYPE_RAW"], cn2=["COMPUTE_IMAGE_TYPE_QCOW2"])
    asked = spec(image={"disk_format": "qcow2"})
    told = explained(sqlite_app, asked, **{SWITCH: True})
    assert told.told_by("require_image_type_support") == {
        "applied": True,
        "changes": {"root_required": ["COMPUTE_IMAGE_TYPE_QCOW2"]},
    }
    (root,) = told.query["root_required"]
    assert "COMPUTE_IMAGE_TYPE_QCOW2" in root.split(",")
    assert told.hosts == ["cn2"]
    assert explained(sqlite_app, asked).hosts == ["cn1", "cn2"]
