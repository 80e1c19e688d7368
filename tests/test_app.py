# SPDX-License-Identifier: Apache-2.0
"""Applications without a database, and the Placement API mounted alone."""

import pytest
from webtest import TestApp

from placement_sched.app import create_app, create_placement_app, make_services
from tests.conftest import AdminClient, make_settings
from tests.support.versions import LATEST_HEADERS

VERSION_PATHS = ["/placement", "/compute", "/compute/v2.1", "/image", "/image/versions"]
VERSION_PATHS += ["/identity/v3"]


@pytest.fixture
def app_without_database(tmp_path):
    application = create_app(make_settings(f"sqlite:///{tmp_path}/none/such.db"))
    yield TestApp(application)
    application.close()


@pytest.mark.parametrize("path", VERSION_PATHS)
def test_version_documents_need_no_database(app_without_database, path):
    assert app_without_database.get(path).status_int in {200, 300}


def test_unavailable_database_is_503_with_retry_after(app_without_database):
    headers = {"X-Auth-Token": "admin"}
    response = app_without_database.get("/placement/traits", headers=headers, status=503)
    assert response.headers["Retry-After"] == "1"


def test_links_of_the_placement_api_alone_have_no_prefix(sqlite_settings):
    services = make_services(sqlite_settings)
    app = AdminClient(create_placement_app(services))
    response = app.post_json("/resource_providers", {"name": "host"}, headers=LATEST_HEADERS)
    path = f"/resource_providers/{response.json['uuid']}"
    assert response.json["links"][0]["href"] == path
    assert response.headers["Location"] == f"http://localhost{path}"
    services.database.dispose()
