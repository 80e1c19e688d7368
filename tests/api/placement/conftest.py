# SPDX-License-Identifier: Apache-2.0
"""Resource providers, traits and resource classes."""

import pytest

from tests.support.versions import LATEST_HEADERS


@pytest.fixture
def provider_uuid(sqlite_app):
    response = sqlite_app.post_json(
        "/placement/resource_providers", {"name": "host"}, headers=LATEST_HEADERS
    )
    return response.json["uuid"]


@pytest.fixture
def app_with_custom_names(app):
    for name in ("CUSTOM_A", "CUSTOM_AB", "CUSTOM_B"):
        app.put(f"/placement/traits/{name}", headers=LATEST_HEADERS, status=201)
    app.put("/placement/resource_classes/CUSTOM_A", headers=LATEST_HEADERS, status=201)
    app.post_json("/placement/resource_providers", {"name": "Host"}, headers=LATEST_HEADERS)
    return app
