"""Flavors and images given whole are what the scheduler's face takes for a record, and no more."""

import orjson
import pytest

from placement_sched.api.scheduler.schemas.flavors_images import FLAVOR, IMAGE
from placement_sched.api.schema import Schema
from placement_sched.errors import Invalid
from placement_sched.model.shape import Misfit
from placement_sched.operations.fleet import recorded

_VALUES = [
    None,
    True,
    -5,
    0,
    1,
    2**31,
    2**63,
    1.5,
    4.0,
    "",
    "many",
    "a\tb",
    "x" * 256,
    [],
    [1],
    ["t"],
    [{"a": [1]}],
    {},
    {"a": 1},
    {"a": True},
    {"a": [1]},
    {"a": {}},
    {"a": None},
    {"": 1},
    {"x" * 256: 1},
    {"mappings": [{"a": {"b": [1.5, None]}}]},
    {"mappings": [1]},
    {"mappings": 1},
]


@pytest.mark.parametrize(("shape", "schema"), [(recorded.FLAVOR, FLAVOR), (recorded.IMAGE, IMAGE)])
def test_a_document_is_taken_just_where_the_face_takes_it(shape, schema):
    face = Schema(schema)
    for key in (*schema["properties"], "unknown"):
        for value in _VALUES:
            taken = []
            for read in (shape, lambda document: face.check(document, "no")):
                try:
                    read({key: value})
                    taken.append(True)
                except (Misfit, Invalid):
                    taken.append(False)
            assert taken[0] == taken[1], (key, value)


@pytest.mark.parametrize("value", ["a\0b", "\ud800", float("inf"), 2**64])
@pytest.mark.parametrize("shape", [recorded.FLAVOR, recorded.IMAGE])
def test_what_json_cannot_keep_is_refused(shape, value):
    for key in ("id", "extra_specs", "properties"):
        for given in (value, {"mappings": [{"a": [value]}]}, {"k": value}):
            with pytest.raises(Misfit):
                shape({key: given})


def test_a_document_is_kept_as_it_is():
    flavor = {"vcpus": 4, "swap": "", "extra_specs": {"a": 1, "b": "c", "d": 1.5}, "id": None}
    image = {"tags": ["t"], "properties": {"a": True, "mappings": [{"a": [1, {"b": None}]}]}}
    assert orjson.dumps(recorded.FLAVOR(flavor)) == orjson.dumps(flavor)
    assert orjson.dumps(recorded.IMAGE(image)) == orjson.dumps(image)


@pytest.mark.parametrize(
    ("entry", "told"),
    [
        (
            "flavor: {name: x, vcpus: many, memory_mb: 1}",
            "'many' is not an integer (at instances.0.flavor.vcpus)",
        ),
        ("flavor: {vcpus: -5}", "-5 is not within 0 and 2147483647"),
        ("flavor: {vcpus: 1.5}", "1.5 is not an integer"),
        ("flavor: {vcpus: true}", "True is not an integer"),
        ("flavor: {vcpus: [1]}", "[1] is not an integer"),
        ("flavor: {extra_specs: {a: true}}", "True is not a number"),
        ("image: {name: 5}", "5 is not a string (at instances.0.image.name)"),
        ("image: {properties: 7}", "7 is not an object"),
        ("image: {properties: {a: [1]}}", "a list cannot be a property"),
        ("image: {min_ram: many}", "'many' is not an integer"),
    ],
)
def test_a_document_of_an_instance_that_the_face_refuses_is_told_at_its_place(small, entry, told):
    for dry_run in (True, False):
        with pytest.raises(Invalid) as refused:
            small.load(f"instances:\n- name: i1\n  host: a\n  {entry}", dry_run=dry_run)
        assert str(refused.value).startswith("f.yaml:4:")
        assert told in str(refused.value)
    assert small.state.instances == {}
