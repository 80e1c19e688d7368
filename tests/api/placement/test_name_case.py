# SPDX-License-Identifier: Apache-2.0
"""Names are compared exactly, case and spaces included, on every database."""

import pytest

from tests.api.placement.provider_requests import list_values_of_key
from tests.support.versions import LATEST_HEADERS

pytestmark = pytest.mark.all_databases


def test_provider_name_filter_is_case_sensitive(app_with_custom_names):
    rows = list_values_of_key(
        app_with_custom_names, "/resource_providers?name=Host", "resource_providers"
    )
    assert [row["name"] for row in rows] == ["Host"]
    for name in ("host", "HOST", "Host%20"):
        path = f"/resource_providers?name={name}"
        assert list_values_of_key(app_with_custom_names, path, "resource_providers") == []


def test_trait_and_class_names_are_case_sensitive(app_with_custom_names):
    for path in ["/traits/custom_a", "/resource_classes/custom_a"]:
        app_with_custom_names.get(f"/placement{path}", headers=LATEST_HEADERS, status=404)
        app_with_custom_names.delete(f"/placement{path}", headers=LATEST_HEADERS, status=404)


def test_query_with_a_name_in_another_case_is_rejected(app_with_custom_names):
    for query in [
        "/resource_providers?required=custom_a",
        "/resource_providers?required=in:CUSTOM_A,custom_b",
        "/resource_providers?resources=custom_a:1",
        "/resource_providers?resources=vcpu:1",
        "/allocation_candidates?resources=custom_a:1",
        "/allocation_candidates?resources=VCPU:1&required=custom_a",
        "/allocation_candidates?resources=VCPU:1&required=!custom_a",
        "/allocation_candidates?resources=VCPU:1&root_required=custom_a",
    ]:
        app_with_custom_names.get(f"/placement{query}", headers=LATEST_HEADERS, status=400)


def test_request_body_with_a_name_in_another_case_is_rejected(app_with_custom_names):
    (provider,) = list_values_of_key(
        app_with_custom_names, "/resource_providers", "resource_providers"
    )
    path = f"/placement/resource_providers/{provider['uuid']}"
    body = {"resource_provider_generation": 0, "traits": ["custom_a"]}
    app_with_custom_names.put_json(f"{path}/traits", body, headers=LATEST_HEADERS, status=400)
    body = {"resource_provider_generation": 0, "inventories": {"custom_a": {"total": 1}}}
    app_with_custom_names.put_json(f"{path}/inventories", body, headers=LATEST_HEADERS, status=400)
