# SPDX-License-Identifier: Apache-2.0
"""Nova's own objects, serialised by nova, beside what we understand of them."""

import json
from dataclasses import asdict
from datetime import datetime
from importlib import import_module
from typing import Any

import pytest

from placement_sched import errors
from placement_sched.config.options.notifications import oslo_messaging
from placement_sched.model.image import READERS, Image
from placement_sched.nova import instances, objects, request_spec
from placement_sched.nova import request_spec as request_spec_module
from placement_sched.nova.instances import instances_of
from placement_sched.nova.objects import (
    NEWEST,
    ObjectType,
    UnknownVersion,
    UnreadableObject,
    aggregate_of,
    to_remote_failure,
)
from placement_sched.nova.request_spec import IMAGE
from placement_sched.nova.selections import dictionaries_of, primitives_of
from tests.nova.wire import understood
from tests.nova.wire.alike import alike, in_order
from tests.nova.wire.answers import NODES, PORT, REBUILD, WHOLE
from tests.nova.wire.recorded import recorded

pytestmark = pytest.mark.system

SEED = 20261122
IMAGE_PROPERTIES = {*READERS, "hw_numa_cpus", "hw_numa_mem", "traits_required"}


def test_requests_are_understood_as_nova_holds_them(nova):
    for one in nova("specs", SEED, 400):
        assert alike(understood.understood(one["primitive"]), one["held"]) == one["held"]


def test_requests_of_every_older_version_are_understood(nova):
    for one in nova("older", SEED, 12):
        ours = understood.understood(one["primitive"])
        assert alike(ours, one["held"]) == one["held"], one["versions"]


def test_image_properties_mean_the_same_typed_as_raw(nova):
    for one in nova("images", SEED, 400):
        typed = Image.from_document(IMAGE.read(one["primitive"], "image"))
        assert typed.properties == Image.from_document(one["raw"]).properties
        assert alike(understood.image(typed), one["held"]) == one["held"]


def versions_in(nova: Any) -> dict[str, str]:
    versions = {name: one for tree in nova("versions").values() for name, one in tree.items()}
    return {name: versions[name] for name in NEWEST}


def test_every_version_is_that_of_nova(newest_nova):
    assert versions_in(newest_nova) == NEWEST


def test_no_version_is_newer_than_those_that_are_known(nova):
    def numbers(version: str) -> list[int]:
        return [int(number) for number in version.split(".")]

    for name, version in versions_in(nova).items():
        assert numbers(version) <= numbers(NEWEST[name]), name


def test_aggregates_are_understood_as_nova_holds_them(nova):
    for one in nova("aggregates", SEED, 20):
        ours, theirs = aggregate_of(one["primitive"]), one["held"]
        assert (ours.id, ours.uuid, ours.name) == (theirs["id"], theirs["uuid"], theirs["name"])
        assert (sorted(ours.hosts), ours.metadata) == (sorted(theirs["hosts"]), theirs["metadata"])


def test_instances_are_recorded_as_nova_holds_them(nova):
    told = nova("instances", SEED, 60)
    ours = instances_of(told["primitive"])
    assert len(ours) == 60
    for one, theirs in zip(ours, told["held"], strict=True):
        image = theirs.pop("image", None)
        if not theirs.get("display_name"):
            theirs["display_name"] = one.uuid  # as records have it that have no name
        record = {**asdict(one), "created_at": told_time(one.created_at)}
        record["updated_at"] = told_time(one.updated_at)
        assert alike(record, theirs) == theirs
        if image is not None:
            assert alike(understood.image(Image.from_document(one.image)), image) == image


def told_time(time: datetime | None) -> str | None:
    return time and time.isoformat()


@pytest.mark.parametrize("answer", [WHOLE, REBUILD], ids=["whole", "rebuild"])
def test_answers_are_read_by_nova_as_its_own(nova, answer):
    primitives = primitives_of(answer)
    given = [one for some in answer["selections"] for one in some]
    for ours, theirs in zip(given, nova("selections", primitives, [PORT]), strict=True):
        fields = theirs["fields"]
        same = ("compute_node_uuid", "service_host", "nodename", "cell_uuid", "availability_zone")
        assert {name: fields[name] for name in same} == {name: ours[name] for name in same}
        assert json.loads(fields["allocation_request"]) == ours["allocation_request"]
        asked = ours["allocation_request"] is not None
        assert fields["allocation_request_version"] == ("1.36" if asked else None)
        assert theirs["providers"] == ([[ours["compute_node_uuid"]]] if asked else [[]])
        numa = ours["limits"].get("numa_topology")
        assert alike(theirs["numa"], numa) == numa


def test_answers_are_written_as_nova_writes_them(nova):
    primitives = [one for some in primitives_of(WHOLE) for one in some]
    read = nova("selections", [primitives], [])
    for ours, theirs in zip(primitives, read, strict=True):
        assert in_order(theirs["sent_again"]) == in_order(ours)
    legacy = [read[0]["legacy"], read[2]["legacy"]]
    assert in_order(dictionaries_of(WHOLE)) == in_order(legacy)


def remote_exceptions() -> Any:
    oslo_messaging()  # which is to be imported by this function first
    return import_module("oslo_messaging._drivers.common")


def over_the_bus(error: errors.Error) -> str:
    failure = to_remote_failure(error, [NODES[0]])
    return remote_exceptions().serialize_remote_exception((type(failure), failure, None))


FUNNEL = {"request_filters": [], "allocation_candidates": {"query": "q", "hosts": 3}}


@pytest.mark.parametrize(
    ("error", "kind", "words"),
    [
        (
            errors.NoValidHost("none", extra={"funnel": FUNNEL}),
            "nova.exception.NoValidHost",
            "No valid host was found. There are not enough hosts available.",
        ),
        (
            errors.Invalid("No such trait: X"),
            "nova.exception.NoValidHost",
            "No valid host was found. No such trait: X",
        ),
        (
            errors.Conflict("it is placed"),
            "nova.exception.AllocationUpdateFailed",
            f"Failed to update allocations for consumer {NODES[0]}. Error: it is placed",
        ),
        (errors.PluginFailed("filter X raised"), "nova.exception.NovaException", "filter X raised"),
        (UnreadableObject("spec_obj: wrong"), "builtins.ValueError", "spec_obj: wrong"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else "",
)
def test_errors_are_raised_by_novas_client_under_their_names(nova, error, kind, words):
    raised = nova("raised", over_the_bus(error))
    assert kind in raised["classes"]
    assert words in raised["words"].splitlines()[0]
    assert raised["text"] == words


def test_an_unknown_version_is_told_as_a_remote_error_with_its_sentence(nova):
    raised = nova("raised", over_the_bus(UnknownVersion("Flavor", "2.0", "spec_obj.flavor")))
    assert "oslo_messaging.rpc.client.RemoteError" in raised["classes"]
    assert "Remote error: IncompatibleObjectVersion spec_obj.flavor: version 2.0" in raised["text"]


def test_every_image_property_of_nova_is_known(nova):
    assert set(nova("fields", "ImageMetaProps")) <= IMAGE_PROPERTIES


def test_no_image_property_is_known_that_nova_does_not_have(newest_nova):
    assert set(newest_nova("fields", "ImageMetaProps")) >= IMAGE_PROPERTIES


@pytest.mark.parametrize("module", [request_spec, request_spec_module, objects, instances])
def test_fields_that_are_read_are_fields_of_nova(newest_nova, module):
    types = [one for one in vars(module).values() if isinstance(one, ObjectType)]
    assert types
    for one in types:
        assert set(one.fields) <= set(newest_nova("fields", one.name)), one.name


def test_what_is_recorded_is_what_nova_makes(newest_nova):
    made = newest_nova("recorded")
    assert {name: in_order(recorded(name)) for name in made} == in_order(made)
