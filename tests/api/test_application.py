# SPDX-License-Identifier: Apache-2.0
"""Behaviour that all APIs share: accepted content types, and the log of failures."""

import logging

import pytest
from oslo_config import cfg
from oslo_log.formatters import ContextFormatter
from oslo_log.log import register_options
from webtest import TestApp
from werkzeug.test import run_wsgi_app

from placement_sched.api.application import Application
from placement_sched.api.health import make_blueprint
from placement_sched.api.middleware import set_request_context
from placement_sched.api.placement.microversions import VERSIONING
from placement_sched.api.placement.routes import PlacementConventions
from placement_sched.api.routing import Api, Blueprint
from placement_sched.app import create_app, make_services
from tests.conftest import make_settings
from tests.support.versions import LATEST, LATEST_HEADERS

PLAIN_TEXT_HEADERS = {"Accept": "text/plain", "OpenStack-API-Version": f"placement {LATEST}"}


def test_unacceptable_media_type_is_406_and_a_malformed_accept_header_is_ignored(sqlite_app):
    for path in ["/resource_providers", "/traits", "/resource_classes", "/usages"]:
        sqlite_app.get(f"/placement{path}", headers=PLAIN_TEXT_HEADERS, status=406)
    for status, types in (
        (200, ("/", "/json", "application/", "a/b/c", "junk, text/html", "junk")),
        (406, ("application/json;q=0", "text/*", "text/html, text/plain;q=0.5")),
    ):
        for accept in types:
            sqlite_app.get(
                "/placement/traits", headers={**PLAIN_TEXT_HEADERS, "Accept": accept}, status=status
            )


def test_request_body_that_cannot_be_read_is_400(sqlite_app):
    class BrokenStream:
        def read(self, _size=-1):
            raise ValueError("invalid chunk size")

    request = sqlite_app.RequestClass.blank(
        "/placement/resource_providers",
        {"wsgi.input": BrokenStream(), "REQUEST_METHOD": "POST", "CONTENT_LENGTH": "9"},
        headers={**LATEST_HEADERS, "X-Auth-Token": "admin"},
        content_type="application/json",
    )
    request.environ["wsgi.input"] = BrokenStream()
    _, status, _ = run_wsgi_app(sqlite_app.app, request.environ)
    assert status == "400 Bad Request"


def test_accept_header_matters_only_for_documents_of_placement(sqlite_app):
    sqlite_app.put("/placement/traits/CUSTOM_A", headers=PLAIN_TEXT_HEADERS, status=201)
    sqlite_app.put("/placement/resource_classes/CUSTOM_A", headers=PLAIN_TEXT_HEADERS, status=201)
    body = {"name": "a"}
    created = sqlite_app.post_json(
        "/placement/resource_providers", body, headers=PLAIN_TEXT_HEADERS
    )
    sqlite_app.delete(
        f"/placement/resource_providers/{created.json['uuid']}", headers=PLAIN_TEXT_HEADERS
    )
    sqlite_app.delete("/placement/traits/CUSTOM_A", headers=PLAIN_TEXT_HEADERS, status=204)
    for path in ["/placement/", "/placement/traits/HW_CPU_X86_AVX"]:
        assert sqlite_app.get(path, headers=PLAIN_TEXT_HEADERS).status_int in {200, 204}, path
    for kind in ["text/html", "application/xml", "text/plain, */*;q=0"]:
        response = sqlite_app.get(
            "/compute/v2.1/os-aggregates", headers={**PLAIN_TEXT_HEADERS, "Accept": kind}
        )
        assert response.json == {"aggregates": []}, kind


LONG_TEXT = "x" * 100_000


def test_rejected_values_are_shortened_in_error_messages(sqlite_app):
    for api_path, body in [
        ("/placement/resource_providers", {"name": LONG_TEXT}),
        ("/placement/resource_providers", {"name": [LONG_TEXT]}),
        ("/placement/resource_providers", {"name": "a", LONG_TEXT: 1}),
        ("/placement/resource_classes", {"name": f"CUSTOM_{LONG_TEXT}"}),
        ("/compute/v2.1/os-aggregates", {"aggregate": {"name": LONG_TEXT}}),
        ("/compute/v2.1/os-aggregates/1/action", {LONG_TEXT: {}}),
        ("/scheduler/v1/select_destinations", {"request_spec": {"flavor": "a", LONG_TEXT: 1}}),
        ("/scheduler/v1/explain", {"request_spec": {"flavor": LONG_TEXT}}),
    ]:
        response = sqlite_app.post_json(api_path, body, headers=LATEST_HEADERS, status="4*")
        assert len(response.body) < 3000, api_path
        assert "x" * 20 in response.text, api_path


def test_invalid_values_appear_as_json_in_error_messages(sqlite_app):
    phrase = "(at $.name). Failed validating 'type' in schema['properties']['name']"
    for value, shown in [
        *((None, "null"), (True, "true"), ({"a": [None, False]}, '{"a": [null, false]}'))
    ]:
        response = sqlite_app.post_json(
            "/placement/resource_providers", {"name": value}, headers=LATEST_HEADERS, status=400
        )
        expected = f"JSON does not validate: {shown} is not of type 'string' {phrase}"
        assert response.json["errors"][0]["detail"] == expected


@pytest.fixture
def use_server_log_format(caplog):
    conf = cfg.ConfigOpts()
    register_options(conf)
    caplog.handler.setFormatter(ContextFormatter(config=conf))


@pytest.mark.usefixtures("use_server_log_format")
def test_unavailable_database_is_logged_in_one_line(tmp_path, caplog):
    application = create_app(make_settings(f"sqlite:///{tmp_path}/none/such.db"))
    headers = {"X-Auth-Token": "admin"}
    response = TestApp(application).get("/placement/traits", headers=headers, status=503)
    application.close()
    (record,) = [one for one in caplog.records if one.levelno == logging.ERROR]
    assert record.exc_info is None
    assert "\n" not in record.getMessage()
    assert caplog.text.count(response.headers["X-Openstack-Request-Id"]) == 1
    assert "unable to open database file" in record.getMessage()


@pytest.mark.usefixtures("use_server_log_format")
def test_internal_error_is_logged_with_traceback_and_hidden_from_clients(sqlite_settings, caplog):
    blueprint = Blueprint("errors", __name__)

    @blueprint.get("/", public=True)
    def fail_with_division_by_zero(_call):
        raise ZeroDivisionError("geheim")

    services = make_services(sqlite_settings)
    api = Api("broken", PlacementConventions(VERSIONING), [blueprint])
    application = Application(services, {"": api}, make_blueprint(services))
    response = TestApp(set_request_context(application)).get("/", status=500)
    services.database.dispose()
    assert "geheim" not in response.text
    (record,) = [one for one in caplog.records if one.levelno == logging.ERROR]
    assert record.exc_info[0] is ZeroDivisionError
    assert caplog.text.count(response.headers["X-Openstack-Request-Id"]) == 1
