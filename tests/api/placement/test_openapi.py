# SPDX-License-Identifier: Apache-2.0
"""The OpenAPI document of the Placement API, as served at each version."""

import re

import pytest
from openapi_spec_validator import OpenAPIV31SpecValidator
from webtest import TestApp

from placement_sched.api import openapi
from placement_sched.api.placement.microversions import VERSIONING
from placement_sched.api.placement.openapi import describe
from placement_sched.api.placement.routes import API
from tests.api.test_openapi import VERSIONS, described, operations

ADDRESS = "/placement/openapi.json"
each_version = pytest.mark.parametrize("version", VERSIONS, ids=str)


@pytest.mark.system
@each_version
def test_document_is_valid(sqlite_app, version):
    asked = {"OpenStack-API-Version": f"placement {version}"}
    document = sqlite_app.get(ADDRESS, headers=asked).json
    OpenAPIV31SpecValidator(document).validate()
    assert document["info"]["version"] == str(version)


@each_version
def test_document_has_every_route_served_at_the_version_and_no_other(version):
    served = [route for route in API.routes if route.serves(version)]
    addresses = [(route.method, re.sub(r"<(\w+)>", r"{\1}", route.path)) for route in served]
    assert sorted(addresses) == sorted(operations(described(version)))


def test_document_needs_no_token_and_is_the_newest_where_no_version_is_asked_for(sqlite_app):
    answer = TestApp(sqlite_app.app).get(ADDRESS)
    assert answer.json == described(VERSIONING.newest)
    assert answer.headers["Vary"] == "openstack-api-version"


def test_document_tells_where_it_is_mounted():
    assert openapi.document(describe(API.routes), VERSIONING.newest, "/")["servers"] == [
        {"url": "/"}
    ]
