# SPDX-License-Identifier: Apache-2.0
"""The OpenAPI document of the Placement API at each microversion."""

import re

import pytest
from openapi_spec_validator import OpenAPIV31SpecValidator
from webtest import TestApp

from placement_sched.api import openapi
from placement_sched.api.placement.microversions import VERSIONING
from placement_sched.api.placement.routes import API, describe_openapi
from tests.api.test_openapi import VERSIONS, build_document, index_operations_by_path

ADDRESS = "/placement/openapi.json"


@pytest.mark.system
@pytest.mark.parametrize("version", VERSIONS, ids=str)
def test_document_is_valid(sqlite_app, version):
    request_headers = {"OpenStack-API-Version": f"placement {version}"}
    document = sqlite_app.get(ADDRESS, headers=request_headers).json
    OpenAPIV31SpecValidator(document).validate()
    assert document["info"]["version"] == str(version)


def test_document_has_exactly_the_routes_of_the_version():
    for version in VERSIONS:
        served = [route for route in API.routes if route.serves(version)]
        addresses = [(route.method, re.sub(r"<(\w+)>", r"{\1}", route.path)) for route in served]
        assert sorted(addresses) == sorted(index_operations_by_path(build_document(version)))


def test_document_needs_no_token_and_defaults_to_the_newest_version(sqlite_app):
    answer = TestApp(sqlite_app.app).get(ADDRESS)
    assert answer.json == build_document(VERSIONING.newest)
    assert answer.headers["Vary"] == "openstack-api-version"


def test_server_url_of_the_openapi_document_is_the_given_mount_path():
    assert openapi.document(describe_openapi(API.routes), VERSIONING.newest, "/")["servers"] == [
        {"url": "/"}
    ]
