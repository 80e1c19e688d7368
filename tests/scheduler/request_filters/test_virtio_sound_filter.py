# SPDX-License-Identifier: Apache-2.0
"""virtio_sound_filter: virtio sound needs hosts that have it."""

import pytest

from placement_sched.errors import Invalid
from placement_sched.scheduler.request_filters.root_traits import VirtioSoundFilter
from tests.scheduler.explained import explained, put_hosts
from tests.scheduler.worlds import applied, root_required
from tests.support.scheduling import flavor, spec
from tests.support.states import a_spec, settings_with

TRAIT = "COMPUTE_SOUND_MODEL_VIRTIO"
KEY, PROPERTY = "hw:sound_model", "hw_sound_model"


@pytest.mark.parametrize(
    ("extra_specs", "properties"),
    [({KEY: "virtio"}, {}), ({}, {PROPERTY: "virtio"}), ({KEY: "virtio"}, {PROPERTY: "virtio"})],
    ids=["flavor", "image", "both"],
)
def test_flavor_or_image_asks_for_the_trait(extra_specs, properties):
    assert root_required(VirtioSoundFilter, a_spec(extra_specs, properties)) == [TRAIT]


@pytest.mark.parametrize("model", ["sb16", "es1370", "pcspk", "ac97", "ich6", "ich9", "usb"])
def test_other_models_need_no_trait(model):
    assert applied(VirtioSoundFilter, a_spec({KEY: model})) is None
    assert applied(VirtioSoundFilter, a_spec(properties={PROPERTY: model})) is None


def test_nothing_is_asked_without_a_sound_device():
    assert applied(VirtioSoundFilter, a_spec()) is None


@pytest.mark.parametrize(
    ("extra_specs", "properties", "keys"),
    [
        (
            {KEY: "virtio"},
            {PROPERTY: "usb"},
            [f"flavor extra spec '{KEY}'", f"image property '{PROPERTY}'"],
        ),
        ({KEY: "gramophone"}, {}, [f"flavor extra spec '{KEY}'", "'gramophone'"]),
    ],
    ids=["two models", "no model"],
)
def test_what_cannot_be_is_refused_by_its_keys(extra_specs, properties, keys):
    with pytest.raises(Invalid) as refused:
        applied(VirtioSoundFilter, a_spec(extra_specs, properties))
    for key in keys:
        assert key in refused.value.detail


def test_filter_is_always_on():
    assert VirtioSoundFilter().enabled(settings_with())


def test_hosts_without_the_trait_are_no_candidates(sqlite_app):
    put_hosts(sqlite_app, cn1=[TRAIT], cn2=[])
    told = explained(sqlite_app, spec(image={"properties": {PROPERTY: "virtio"}}))
    assert told.told_by("virtio_sound_filter") == {
        "applied": True,
        "changes": {"root_required": [TRAIT]},
    }
    assert told.query["root_required"] == [f"{TRAIT},!COMPUTE_STATUS_DISABLED"]
    assert told.hosts == ["cn1"]
    silent = explained(sqlite_app, spec(flavor=flavor(extra_specs={KEY: "usb"})))
    assert silent.hosts == ["cn1", "cn2"]
