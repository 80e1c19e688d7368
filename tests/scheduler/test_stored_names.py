# SPDX-License-Identifier: Apache-2.0
"""Requests and records that name a stored flavor or image."""

import pytest

from tests.support.scheduling import (
    explain_request,
    get_selected_hosts,
    make_flavor,
    make_report,
    make_spec,
    make_uuid,
    select_hosts,
)
from tests.support.statements import record_statements
from tests.support.versions import LATEST_HEADERS

FLAVORS_PATH = "/compute/v2.1/flavors"
LICENSED_TRAIT = {"trait:CUSTOM_LICENSED": "required"}


@pytest.fixture
def cloud(app):
    """Two hosts, and a flavor and an image that require the trait of cn2."""
    app.post_json(
        "/scheduler/v1/compute_nodes", [make_report("cn1", memory_mb=98304), make_report("cn2")]
    )
    app.put("/placement/traits/CUSTOM_LICENSED", headers=LATEST_HEADERS)
    licensed = f"/placement/resource_providers/{make_report('cn2')['uuid']}"
    generation = app.get(licensed, headers=LATEST_HEADERS).json["generation"]
    body = {"resource_provider_generation": generation, "traits": ["CUSTOM_LICENSED"]}
    app.put_json(f"{licensed}/traits", body, headers=LATEST_HEADERS)
    store_flavor(app, "f1", "m1.licensed", LICENSED_TRAIT, swap=1024)
    return app


@pytest.fixture
def windows_image(cloud):
    """The uuid of an image that requires the trait."""
    return store_image(cloud, "windows", **LICENSED_TRAIT)


def store_flavor(app, flavorid, name, extra_specs=None, **fields):
    sizes = {"ram": 2048, "vcpus": 2, "disk": 20, **fields}
    app.post_json(FLAVORS_PATH, {"flavor": {"id": flavorid, "name": name, **sizes}})
    body = {"extra_specs": extra_specs or {}}
    app.post_json(f"{FLAVORS_PATH}/{flavorid}/os-extra_specs", body)


def store_image(app, name, **attributes):
    return app.post_json("/image/v2/images", {"name": name, **attributes}).json["id"]


def select_host_names(app, **fields):
    return get_selected_hosts(select_hosts(app, make_spec(**fields)))


def explain_and_get_candidates_query(app, **fields):
    return explain_request(app, make_spec(**fields))["funnel"]["allocation_candidates"]["query"]


def select_and_get_error(app, status, *uuids, **fields):
    (error,) = select_hosts(app, make_spec(*uuids, **fields), status)["errors"]
    return error


def count_statements(app, **fields):
    with record_statements(app.app.services.database) as statements:
        explain_and_get_candidates_query(app, **fields)
    return len(statements)


@pytest.mark.parametrize("name", ["f1", "m1.licensed"])
def test_flavor_may_be_named_by_id_or_name(cloud, name):
    assert select_host_names(cloud, flavor=name) == ["cn2"]
    query = explain_and_get_candidates_query(cloud, flavor=name)
    assert "required=CUSTOM_LICENSED" in query
    # Swap takes room on the disk.
    assert "resources=DISK_GB%3A21%2CMEMORY_MB%3A2048%2CVCPU%3A2" in query


@pytest.mark.all_databases
def test_id_of_a_flavor_has_precedence_and_changes_apply_at_once(cloud):
    store_flavor(cloud, "p", "private", **{"os-flavor-access:is_public": False})
    assert select_host_names(cloud, flavor="p") == ["cn1"]
    store_flavor(cloud, "m1.licensed", "other")
    assert select_host_names(cloud, flavor="m1.licensed") == ["cn1"]
    assert select_host_names(cloud, flavor="f1") == ["cn2"]
    cloud.delete(f"{FLAVORS_PATH}/f1/os-extra_specs/trait:CUSTOM_LICENSED")
    assert select_host_names(cloud, flavor="f1") == ["cn1"]


@pytest.mark.parametrize("name", ["F1", "nope"])
def test_unknown_flavor_is_404(cloud, name):
    for path in ("select_destinations", "explain"):
        body = {"request_spec": make_spec(flavor=name)}
        (error,) = cloud.post_json(f"/scheduler/v1/{path}", body, status=404).json["errors"]
        assert error["code"] == "scheduler.not_found"
        assert f"no stored flavor {name!r}" in error["detail"]
        assert error["detail"].endswith("(at $.request_spec.flavor)")


def test_placed_instance_keeps_its_flavor_after_changes_of_the_stored_flavor(cloud):
    path = f"/scheduler/v1/instances/{make_uuid(1)}"
    request = make_spec(make_uuid(1), flavor="f1")
    first = select_hosts(cloud, request)
    recorded = cloud.get(path).json["flavor"]
    assert explain_and_get_candidates_query(
        cloud, flavor=recorded
    ) == explain_and_get_candidates_query(cloud, flavor="f1")
    cloud.delete(f"{FLAVORS_PATH}/f1/os-extra_specs/trait:CUSTOM_LICENSED")
    assert select_hosts(cloud, request) == first
    cloud.delete(f"{FLAVORS_PATH}/f1")
    assert select_hosts(cloud, request) == first
    recorded = cloud.get(path).json["flavor"]
    assert (recorded["flavorid"], recorded["name"]) == ("f1", "m1.licensed")
    assert (recorded["vcpus"], recorded["memory_mb"], recorded["swap"]) == (2, 2048, 1024)
    assert recorded["extra_specs"] == LICENSED_TRAIT
    error = select_and_get_error(cloud, 404, make_uuid(2), flavor="f1")
    assert error["detail"].startswith("There is no stored flavor 'f1'")
    hints = {"_nova_check_type": ["rebuild"]}
    error = select_and_get_error(cloud, 404, make_uuid(1), flavor="f1", scheduler_hints=hints)
    assert error["code"] == "scheduler.not_found"
    assert cloud.put_json(path, {"flavor": recorded}).json["flavor"] == recorded


def test_stored_flavor_takes_one_sql_statement_more_than_a_flavor_document(cloud):
    value = make_flavor(extra_specs=LICENSED_TRAIT)
    explain_and_get_candidates_query(cloud, flavor=value)
    for number in (0, 20):
        for other in range(number):
            store_flavor(cloud, f"o{other}", f"other-{other}", {"a": "1", "b": "2"})
        named = count_statements(cloud, flavor="m1.licensed")
        assert named == count_statements(cloud, flavor=value) + 1


@pytest.mark.parametrize("name", ["f1", "m1.licensed"])
def test_recorded_instance_keeps_its_flavor_after_deletion_of_the_stored_flavor(cloud, name):
    path = f"/scheduler/v1/instances/{make_uuid(1)}"
    recorded = cloud.put_json(path, {"flavor": name}).json["flavor"]
    assert (recorded["flavorid"], recorded["memory_mb"]) == ("f1", 2048)
    assert recorded["extra_specs"] == LICENSED_TRAIT
    cloud.delete(f"{FLAVORS_PATH}/f1")
    assert cloud.get(path).json["flavor"] == recorded
    assert cloud.put_json(path, {"flavor": "gone"}).json["flavor"] == {"id": "gone"}
    assert cloud.put_json(path, {"flavor": None}).json["flavor"] is None


def test_image_may_be_named_by_id_or_name(cloud, windows_image):
    for name in (windows_image, windows_image.upper(), "windows"):
        assert select_host_names(cloud, image=name) == ["cn2"]
        assert "required=CUSTOM_LICENSED" in explain_and_get_candidates_query(cloud, image=name)
    store_image(cloud, "plain")
    assert select_host_names(cloud, image="plain") == ["cn1"]
    store_image(cloud, windows_image)
    assert select_host_names(cloud, image=windows_image) == ["cn2"]
    request = make_spec(make_uuid(1), image="windows")
    assert select_hosts(cloud, request) == select_hosts(cloud, request)
    error = select_and_get_error(cloud, 404, image="Windows")
    assert "no stored image 'Windows'" in error["detail"]
    assert error["code"] == "scheduler.not_found"


def test_error_for_a_name_of_several_images_has_their_ids(cloud, windows_image):
    other = store_image(cloud, "windows")
    error = select_and_get_error(cloud, 400, image="windows")
    for words in (windows_image, other, "$.request_spec.image"):
        assert words in error["detail"]


@pytest.mark.all_databases
def test_changed_image_applies_to_the_next_request(cloud, windows_image):
    cloud.patch_json(
        f"/image/v2/images/{windows_image}",
        [{"op": "remove", "path": "/trait:CUSTOM_LICENSED"}],
        content_type="application/openstack-images-v2.1-json-patch",
    )
    assert select_host_names(cloud, image=windows_image) == ["cn1"]


@pytest.mark.usefixtures("windows_image")
def test_stored_image_takes_three_sql_statements_more_than_an_image_document(cloud):
    value = {"properties": LICENSED_TRAIT}
    explain_and_get_candidates_query(cloud, image=value)
    assert count_statements(cloud, image="windows") == count_statements(cloud, image=value) + 3
