# SPDX-License-Identifier: Apache-2.0
"""Objects that nova has serialized are parsed with the same values."""

import json
from importlib import import_module
from typing import Any

import pytest

from placement_sched import errors
from placement_sched.config.options.services import import_oslo_messaging
from placement_sched.model.image import READERS, Image
from placement_sched.nova import request_spec, rpc
from placement_sched.nova.objects import (
    NEWEST,
    ObjectType,
    UnknownVersion,
    UnreadableObject,
    to_remote_failure,
)
from placement_sched.nova.request_spec import IMAGE
from placement_sched.nova.rpc import (
    build_dictionaries,
    build_primitives,
    read_aggregate_ids,
    read_object_uuids,
)
from tests.nova.wire import documents
from tests.nova.wire.comparison import sort_sets, unify_empty_values
from tests.nova.wire.recorded import read_recorded_object
from tests.nova.wire.results import (
    NODE_UUIDS,
    PORT_UUID,
    REBUILD_RESULT,
    RESULT_WITH_LIMITS,
    SELECTIONS_WITH_LIMITS,
    read_selections,
)

pytestmark = pytest.mark.system

RANDOM_SEED = 20261122
IMAGE_PROPERTIES = {*READERS, "hw_numa_cpus", "hw_numa_mem", "traits_required"}


@pytest.mark.parametrize(
    ("versions", "number"), [("draw_request_specs", 400), ("draw_older_request_specs", 12)]
)
def test_random_request_specs_are_parsed_like_nova(call_nova, versions, number):
    for spec in call_nova(versions, RANDOM_SEED, number):
        ours = documents.convert_spec_to_document(spec["primitive"])
        assert unify_empty_values(ours, spec["held"]) == spec["held"], spec.get("versions")


def test_typed_and_raw_image_properties_are_equal(call_nova):
    for image in call_nova("draw_images", RANDOM_SEED, 400):
        typed = Image.from_document(IMAGE.read(image["primitive"], "image"))
        assert typed.properties == Image.from_document(image["raw"]).properties
        ours = documents.convert_to_document(typed)
        assert unify_empty_values(ours, image["held"]) == image["held"]


def read_object_versions(call_nova: Any) -> dict[str, str]:
    versions = {
        name: tree[name] for tree in call_nova("list_object_versions").values() for name in tree
    }
    return {name: versions[name] for name in NEWEST}


def test_object_versions_match_nova(call_newest_nova):
    assert read_object_versions(call_newest_nova) == NEWEST


def test_nova_has_no_newer_object_versions(call_nova):
    def split_version(version: str) -> list[int]:
        return [int(number) for number in version.split(".")]

    for name, version in read_object_versions(call_nova).items():
        assert split_version(version) <= split_version(NEWEST[name]), name


def test_aggregates_and_instances_in_casts_of_nova_are_read(call_nova):
    drawn = call_nova("draw_notified_objects", RANDOM_SEED, 20)
    assert read_aggregate_ids(drawn["aggregates"]) == set(drawn["ids"])
    assert read_object_uuids(drawn["instances"]) == drawn["uuids"]


@pytest.mark.parametrize("result", [RESULT_WITH_LIMITS, REBUILD_RESULT], ids=["whole", "rebuild"])
def test_nova_parses_selection_results(call_nova, result):
    primitives = build_primitives(read_selections(result))
    selections = [each for row in result["selections"] for each in row]
    for ours, theirs in zip(
        selections, call_nova("describe_selections", primitives, [PORT_UUID]), strict=True
    ):
        fields = theirs["fields"]
        same = ("compute_node_uuid", "service_host", "nodename", "cell_uuid", "availability_zone")
        assert {name: fields[name] for name in same} == {name: ours[name] for name in same}
        assert json.loads(fields["allocation_request"]) == ours["allocation_request"]
        has_request = ours["allocation_request"] is not None
        assert fields["allocation_request_version"] == ("1.36" if has_request else None)
        assert theirs["providers"] == ([[ours["compute_node_uuid"]]] if has_request else [[]])
        numa = ours["limits"].get("numa_topology")
        assert unify_empty_values(theirs["numa"], numa) == numa


def test_selection_results_equal_the_serialization_of_nova(call_nova):
    primitives = [each for row in build_primitives(SELECTIONS_WITH_LIMITS) for each in row]
    read = call_nova("describe_selections", [primitives], [])
    for ours, theirs in zip(primitives, read, strict=True):
        assert sort_sets(theirs["sent_again"]) == sort_sets(ours)
    legacy = [read[0]["legacy"], read[2]["legacy"]]
    assert sort_sets(build_dictionaries(SELECTIONS_WITH_LIMITS)) == sort_sets(legacy)


def import_remote_exceptions() -> Any:
    import_oslo_messaging()  # this function must import the library first
    return import_module("oslo_messaging._drivers.common")


def serialize_exception(error: errors.Error) -> str:
    failure = to_remote_failure(error, [NODE_UUIDS[0]])
    return import_remote_exceptions().serialize_remote_exception((type(failure), failure, None))


FUNNEL_WITHOUT_REJECTIONS = {
    "request_filters": [],
    "allocation_candidates": {"query": "q", "hosts": 3},
}


@pytest.mark.parametrize(
    ("error", "kind", "words"),
    [
        (
            errors.NoValidHost("none", extra={"funnel": FUNNEL_WITHOUT_REJECTIONS}),
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
            f"Failed to update allocations for consumer {NODE_UUIDS[0]}. Error: it is placed",
        ),
        (errors.PluginFailed("filter X raised"), "nova.exception.NovaException", "filter X raised"),
        (UnreadableObject("spec_obj: wrong"), "builtins.ValueError", "spec_obj: wrong"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else "",
)
def test_nova_client_raises_errors_by_name(call_nova, error, kind, words):
    raised = call_nova("describe_remote_exception", serialize_exception(error))
    assert kind in raised["classes"]
    assert words in raised["words"].splitlines()[0]
    assert raised["text"] == words


def test_unknown_version_is_a_remote_error_with_its_message(call_nova):
    raised = call_nova(
        "describe_remote_exception",
        serialize_exception(UnknownVersion("Flavor", "2.0", "spec_obj.flavor")),
    )
    assert "oslo_messaging.rpc.client.RemoteError" in raised["classes"]
    assert "Remote error: IncompatibleObjectVersion spec_obj.flavor: version 2.0" in raised["text"]


def test_every_image_property_of_nova_is_supported(call_nova):
    assert set(call_nova("list_field_names", "ImageMetaProps")) <= IMAGE_PROPERTIES


def test_no_image_property_is_unknown_to_nova(call_newest_nova):
    assert set(call_newest_nova("list_field_names", "ImageMetaProps")) >= IMAGE_PROPERTIES


@pytest.mark.parametrize("module", [request_spec, rpc])
def test_parsed_fields_exist_in_nova(call_newest_nova, module):
    types = [value for value in vars(module).values() if isinstance(value, ObjectType)]
    assert types
    for kind in types:
        assert set(kind.fields) <= set(call_newest_nova("list_field_names", kind.name)), kind.name


def test_recorded_objects_match_nova(call_newest_nova):
    recorded = sort_sets(call_newest_nova("draw_recorded_objects"))
    assert {name: sort_sets(read_recorded_object(name)) for name in recorded} == recorded
