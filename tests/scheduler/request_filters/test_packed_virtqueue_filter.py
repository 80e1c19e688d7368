# SPDX-License-Identifier: Apache-2.0
"""packed_virtqueue_filter: packed queues need hosts that can pack them."""

import pytest

from placement_sched.errors import Invalid
from placement_sched.scheduler.request_filters.root_traits import PackedVirtqueueFilter
from tests.scheduler.explained import explained, put_hosts
from tests.scheduler.worlds import applied, root_required
from tests.support.scheduling import flavor, spec
from tests.support.states import a_spec, settings_with

TRAIT = "COMPUTE_NET_VIRTIO_PACKED"
KEY, PROPERTY = "hw:virtio_packed_ring", "hw_virtio_packed_ring"


@pytest.mark.parametrize(
    ("extra_specs", "properties"),
    [
        ({KEY: "true"}, {}),
        ({KEY: "yes"}, {}),
        ({}, {PROPERTY: "true"}),
        ({}, {PROPERTY: True}),
        ({KEY: "True"}, {PROPERTY: "1"}),
    ],
    ids=["flavor", "flavor yes", "image", "image boolean", "both"],
)
def test_flavor_or_image_asks_for_the_trait(extra_specs, properties):
    assert root_required(PackedVirtqueueFilter, a_spec(extra_specs, properties)) == [TRAIT]


@pytest.mark.parametrize(
    ("extra_specs", "properties"),
    [({}, {}), ({KEY: "false"}, {}), ({}, {PROPERTY: "no"}), ({KEY: "off"}, {PROPERTY: "0"})],
    ids=["neither", "flavor says no", "image says no", "both say no"],
)
def test_nothing_is_asked_without_packed_queues(extra_specs, properties):
    assert applied(PackedVirtqueueFilter, a_spec(extra_specs, properties)) is None


@pytest.mark.parametrize(("by_flavor", "by_image"), [("true", "false"), ("false", "true")])
def test_flavor_and_image_that_contradict_each_other_are_both_named(by_flavor, by_image):
    with pytest.raises(Invalid) as refused:
        applied(PackedVirtqueueFilter, a_spec({KEY: by_flavor}, {PROPERTY: by_image}))
    assert f"flavor extra spec '{KEY}'" in refused.value.detail
    assert f"image property '{PROPERTY}'" in refused.value.detail


def test_filter_is_always_on():
    assert PackedVirtqueueFilter().enabled(settings_with())


def test_hosts_without_the_trait_are_no_candidates(sqlite_app):
    put_hosts(sqlite_app, cn1=[], cn2=[TRAIT])
    told = explained(sqlite_app, spec(flavor=flavor(extra_specs={KEY: "true"})))
    assert told.told_by("packed_virtqueue_filter") == {
        "applied": True,
        "changes": {"root_required": [TRAIT]},
    }
    assert told.query["root_required"] == [f"{TRAIT},!COMPUTE_STATUS_DISABLED"]
    assert told.hosts == ["cn2"]


def test_contradiction_is_400(sqlite_app):
    asked = spec(
        flavor=flavor(extra_specs={KEY: "true"}), image={"properties": {PROPERTY: "false"}}
    )
    answer = sqlite_app.post_json("/scheduler/v1/explain", {"request_spec": asked}, status=400)
    (error,) = answer.json["errors"]
    assert KEY in error["detail"]
    assert PROPERTY in error["detail"]
