# SPDX-License-Identifier: Apache-2.0
"""Requests that name a stored image."""

import pytest

from tests.support.scheduling import add_licensed_host, instance, selected_hosts, spec
from tests.support.statements import record_statements


@pytest.fixture
def cloud(app):
    return add_licensed_host(app)


@pytest.fixture
def windows_image(cloud):
    """The uuid of an image that requires the trait."""
    return store_image(cloud, "windows", **{"trait:CUSTOM_LICENSED": "required"})


def store_image(app, name, **attributes):
    return app.post_json("/image/v2/images", {"name": name, **attributes}).json["id"]


def select_host(app, image, *instances, status=200):
    body = {"request_spec": spec(*instances, image=image)}
    return app.post_json("/scheduler/v1/select_destinations", body, status=status).json


def explain(app, image):
    return app.post_json("/scheduler/v1/explain", {"request_spec": spec(image=image)}).json


def read_query(answer):
    return answer["funnel"]["allocation_candidates"]["query"]


def test_image_may_be_named_by_id_or_name(cloud, windows_image):
    for name in (windows_image, windows_image.upper(), "windows"):
        assert selected_hosts(select_host(cloud, name)) == ["cn2"]
        assert "required=CUSTOM_LICENSED" in read_query(explain(cloud, name))
    store_image(cloud, "plain")
    assert selected_hosts(select_host(cloud, "plain")) == ["cn1"]
    store_image(cloud, windows_image)
    assert selected_hosts(select_host(cloud, windows_image)) == ["cn2"]
    first = select_host(cloud, "windows", instance(1))
    assert select_host(cloud, "windows", instance(1)) == first
    (error,) = select_host(cloud, "Windows", status=404)["errors"]
    assert "no stored image 'Windows'" in error["detail"]
    assert error["code"] == "scheduler.not_found"


def test_error_for_a_name_of_several_images_has_their_ids(cloud, windows_image):
    other = store_image(cloud, "windows")
    (error,) = select_host(cloud, "windows", status=400)["errors"]
    assert windows_image in error["detail"]
    assert other in error["detail"]
    assert "$.request_spec.image" in error["detail"]


@pytest.mark.all_databases
def test_changed_image_applies_at_once(cloud, windows_image):
    cloud.patch_json(
        f"/image/v2/images/{windows_image}",
        [{"op": "remove", "path": "/trait:CUSTOM_LICENSED"}],
        content_type="application/openstack-images-v2.1-json-patch",
    )
    assert selected_hosts(select_host(cloud, windows_image)) == ["cn1"]


def test_error_for_an_invalid_property(cloud):
    store_image(cloud, "odd", hw_cpu_policy="sometimes")
    (error,) = select_host(cloud, "odd", status=400)["errors"]
    assert "hw_cpu_policy" in error["detail"]


@pytest.mark.parametrize("number", [1, 50])
def test_stored_image_takes_three_more_statements(cloud, windows_image, number):
    for other in range(number):
        store_image(cloud, f"other-{other}")
    image = {"properties": {"trait:CUSTOM_LICENSED": "required"}}
    explain(cloud, image)
    with record_statements(cloud.app.services.database) as value:
        explain(cloud, image)
    with record_statements(cloud.app.services.database) as named:
        explain(cloud, "windows")
    assert len(named) == len(value) + 3
