# SPDX-License-Identifier: Apache-2.0
"""Requests that name a stored image."""

import pytest

from tests.support.scheduling import hosts_of, instance, spec, with_licensed_host
from tests.support.statements import counted


@pytest.fixture
def cloud(app):
    return with_licensed_host(app)


@pytest.fixture
def windows(cloud):
    """The uuid of an image that wants the trait."""
    return make(cloud, "windows", **{"trait:CUSTOM_LICENSED": "required"})


def make(app, name, **attributes):
    return app.post_json("/image/v2/images", {"name": name, **attributes}).json["id"]


def select(app, image, *instances, status=200):
    body = {"request_spec": spec(*instances, image=image)}
    return app.post_json("/scheduler/v1/select_destinations", body, status=status).json


def explain(app, image):
    return app.post_json("/scheduler/v1/explain", {"request_spec": spec(image=image)}).json


def query_of(answer):
    return answer["funnel"]["allocation_candidates"]["query"]


def test_image_is_found_by_id(cloud, windows):
    assert hosts_of(select(cloud, windows)) == ["cn2"]
    assert hosts_of(select(cloud, windows.upper())) == ["cn2"]
    assert "required=CUSTOM_LICENSED" in query_of(explain(cloud, windows))


def test_image_is_found_by_name(cloud, windows):
    assert hosts_of(select(cloud, "windows")) == ["cn2"]
    assert "required=CUSTOM_LICENSED" in query_of(explain(cloud, "windows"))


def test_image_without_properties_asks_for_nothing(cloud, windows):
    make(cloud, "plain")
    assert hosts_of(select(cloud, "plain")) == ["cn1"]


def test_id_goes_before_name(cloud, windows):
    make(cloud, windows)
    assert hosts_of(select(cloud, windows)) == ["cn2"]


def test_name_is_compared_with_case(cloud, windows):
    answer = select(cloud, "Windows", status=404)
    assert "no stored image 'Windows'" in answer["errors"][0]["detail"]
    assert answer["errors"][0]["code"] == "scheduler.not_found"


def test_name_of_several_images_is_refused_with_their_ids(cloud, windows):
    other = make(cloud, "windows")
    (error,) = select(cloud, "windows", status=400)["errors"]
    assert windows in error["detail"]
    assert other in error["detail"]
    assert "$.request_spec.image" in error["detail"]


@pytest.mark.all_databases
def test_changed_image_is_heeded_at_once(cloud, windows):
    cloud.patch_json(
        f"/image/v2/images/{windows}",
        [{"op": "remove", "path": "/trait:CUSTOM_LICENSED"}],
        content_type="application/openstack-images-v2.1-json-patch",
    )
    assert hosts_of(select(cloud, windows)) == ["cn1"]


def test_property_that_cannot_be_is_told_when_it_is_asked_for(cloud):
    make(cloud, "odd", hw_cpu_policy="sometimes")
    (error,) = select(cloud, "odd", status=400)["errors"]
    assert "hw_cpu_policy" in error["detail"]


def test_request_sent_again_finds_its_placement(cloud, windows):
    first = select(cloud, "windows", instance(1))
    assert select(cloud, "windows", instance(1)) == first


@pytest.mark.parametrize("number", [1, 50])
def test_naming_an_image_takes_three_statements_more(cloud, windows, number):
    """The image, its properties, its tags: however many images there are."""
    for other in range(number):
        make(cloud, f"other-{other}")
    whole = {"properties": {"trait:CUSTOM_LICENSED": "required"}}
    explain(cloud, whole)
    with counted(cloud.app.services.database) as given:
        explain(cloud, whole)
    with counted(cloud.app.services.database) as named:
        explain(cloud, "windows")
    assert len(named) == len(given) + 3
