"""What placement is asked for a request, and what of a request cannot be asked."""

import pytest

from placement_sched.errors import Invalid, UnknownNames
from placement_sched.scheduler.question import question_from, unknown_in
from tests.scheduler.states import a_spec, settings_with


def asked(spec, node_uuid=None):
    return question_from(spec, settings_with(), node_uuid).querystring()


@pytest.mark.parametrize(
    ("extra_specs", "properties", "part"),
    [
        ({"resources:VGPU": "2"}, {}, "VGPU%3A2"),
        ({"resources:DISK_GB": "0"}, {}, "resources=MEMORY_MB%3A512%2CVCPU%3A1"),
        ({"trait:CUSTOM_A": "required"}, {}, "required=CUSTOM_A&"),
        ({"trait:CUSTOM_A": "forbidden"}, {}, "required=%21CUSTOM_A&"),
        ({}, {"trait:CUSTOM_A": "required"}, "required=CUSTOM_A&"),
    ],
)
def test_extra_specs_and_image_properties_are_asked_of_placement(extra_specs, properties, part):
    assert part in asked(a_spec(extra_specs, properties))


@pytest.mark.parametrize("value", ["forbidden", "Required", "x"])
def test_image_asks_for_a_trait_by_required_alone(value):
    assert asked(a_spec(properties={"trait:CUSTOM_A": value})) == asked(a_spec())


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("trait:custom_x", "required"),
        ("trait: CUSTOM_X", "required"),
        ("trait:CUSTOM_X\n", "required"),
        ("trait:", "required"),
        ("trait:CUSTOM_X", "Required"),
        ("trait:CUSTOM_X", "foo"),
        ("resources:vcpu", "8"),
        ("resources:", "8"),
        ("resources:VCPU\n", "8"),
        ("resources:VCPU", "1\n"),
        ("resources:VCPU", "1.5"),
        ("resources:VCPU", "-1"),
    ],
)
def test_extra_spec_that_cannot_be_is_refused_by_its_key(key, value):
    with pytest.raises(Invalid) as refused:
        asked(a_spec({key: value}))
    assert f"flavor extra spec {key!r}: " in refused.value.detail


@pytest.mark.parametrize("name", ["custom_x", " CUSTOM_X", "CUSTOM_X\n", ""])
def test_image_property_that_names_no_trait_is_refused_by_its_key(name):
    with pytest.raises(Invalid) as refused:
        asked(a_spec(properties={f"trait:{name}": "required"}))
    assert f"image property {'trait:' + name!r}: " in refused.value.detail


def test_request_for_a_cell_is_not_cut():
    assert "limit" not in asked(a_spec(requested_destination={"cell": "c"}))
    assert "limit=1000" in asked(a_spec(requested_destination={"host": "h"}))


@pytest.mark.parametrize(
    ("extra_specs", "properties", "places"),
    [
        ({"trait:NOPE": "required"}, {}, ["flavor extra spec 'trait:NOPE'"]),
        ({"resources:NOPE": "1"}, {}, ["flavor extra spec 'resources:NOPE'"]),
        ({}, {"trait:NOPE": "required"}, ["image property 'trait:NOPE'"]),
        (
            {"trait:NOPE": "required"},
            {"trait:NOPE": "required"},
            ["flavor extra spec 'trait:NOPE'", "image property 'trait:NOPE'"],
        ),
    ],
)
def test_unknown_name_is_told_with_where_it_came_from(extra_specs, properties, places):
    unknown = UnknownNames("in a query string", kind="trait(s)", names=["NOPE"])
    told = unknown_in(a_spec(extra_specs, properties), unknown).detail
    assert told == f"No such trait(s): NOPE ({', '.join(places)})"
