# SPDX-License-Identifier: Apache-2.0
"""Routing of paths and methods."""

from dataclasses import replace

import flask
import pytest
from webtest import TestApp
from werkzeug.test import create_environ, run_wsgi_app

from placement_sched.api.application import Application
from placement_sched.api.health import make_blueprint
from placement_sched.api.placement.microversions import VERSIONING
from placement_sched.api.placement.routes import PlacementConventions
from placement_sched.api.routing import Api, ApiResponse, Blueprint
from placement_sched.api.versions import Version
from placement_sched.app import create_placement_app, make_services
from tests.support.versions import LATEST

things_blueprint = Blueprint("things", __name__)


@things_blueprint.get("/things", until=Version(1, 5), public=True)
def first_handler(_call):
    return ApiResponse(body={"answered": "first"})


@things_blueprint.get("/things", since=Version(1, 6), policy="placement:traits:list")
def second_handler(_call):
    return ApiResponse(body={"answered": "second"})


@things_blueprint.get("/things/<uuid>", public=True)
@things_blueprint.put("/things/<uuid>", public=True)
def item_handler(call, uuid):
    return ApiResponse(body={"answered": uuid, "base": call.base, "url": call.url})


@things_blueprint.route("/files/<path:below>", methods=["HEAD"], public=True)
def subpath_handler(_call, below):
    return ApiResponse(headers={"X-Below": below})


@things_blueprint.get("/", public=True)
def root_handler(_call):
    return ApiResponse(body={"answered": "root"})


THINGS_API = Api("a", PlacementConventions(VERSIONING), [things_blueprint])


@pytest.fixture(scope="module")
def services(sqlite_template, tmp_path_factory):
    from tests.conftest import make_settings

    path = tmp_path_factory.mktemp("addresses") / "placement_sched.db"
    parts = make_services(make_settings(f"sqlite:///{path}"))
    yield parts
    parts.database.dispose()


@pytest.fixture(scope="module")
def client(services):
    return TestApp(Application(services, {"/a": THINGS_API}, make_blueprint(services)), lint=False)


def build_version_headers(version):
    return {"OpenStack-API-Version": f"placement {version}", "X-Auth-Token": "admin"}


def test_route_is_chosen_by_microversion(client):
    for version, answered in [("1.5", "first"), ("1.6", "second")]:
        assert client.get("/a/things", headers=build_version_headers(version)).json == {
            "answered": answered
        }, (version, answered)


def test_path_variables_are_passed_to_the_handler_of_the_route(client):
    assert client.put("/a/things/a%20b").json["answered"] == "a b"
    assert client.head("/a/files/a/b").headers["X-Below"] == "a/b"


def test_paths_without_a_route_are_404(client):
    for path in ["/a/things/", "/a/things/a/b", "/a/things/x//a", "/a/thing"]:
        response = client.get(path, headers=build_version_headers(LATEST), status=404)
        assert response.json["errors"][0]["detail"] == "The resource could not be found.", path


def test_methods_without_a_route_are_405_with_allowed_methods(client):
    for method in ["HEAD", "DELETE", "OPTIONS", "BREW", "get"]:
        request = client.RequestClass.blank(
            "/a/things/a", method=method, headers=build_version_headers(LATEST)
        )
        response = client.do_request(request, status=405)
        assert response.headers["Allow"] == "GET, PUT", method
        if method != "HEAD":
            assert response.json["errors"][0]["detail"] == (
                f"The method {method} is not allowed for this resource. Allowed: GET, PUT."
            ), method


def test_path_is_public_only_if_all_its_routes_are(client):
    client.get("/a/things/a")
    client.delete("/a/things", status=401)
    client.get("/a/things", status=401)
    client.get("/a/nowhere", status=401)


def test_first_path_segment_selects_the_api(client):
    for path, answered in [
        ("/a", "root"),
        ("/a/", "root"),
        ("/a//", "root"),
        ("/a//things/x", "x"),
        ("", None),
        ("/", None),
        ("/c/a", None),
        ("/ab", None),
        ("//a", None),
        ("//", None),
        ("a", None),
        (";x=1", None),
    ]:
        environ = {**create_environ(), "SCRIPT_NAME": "/front", "PATH_INFO": path}
        body, status, _ = run_wsgi_app(client.app, environ)
        if answered is None:
            assert status == "404 Not Found", (path, answered)
            assert b"Nothing is served at this path. APIs: /a" in b"".join(body), (path, answered)
        else:
            assert f'"answered":"{answered}"'.encode() in b"".join(body), (path, answered)


def test_links_start_with_the_server_and_the_prefix_of_the_api(client):
    environ = {"SCRIPT_NAME": "/front", "HTTP_HOST": "sched.example.com"}
    response = client.get("/a/things/x", extra_environ=environ).json
    assert response["base"] == "/front/a"
    assert response["url"] == "http://sched.example.com/front/a"


def test_api_prefix_without_a_slash_is_not_its_root(sqlite_settings):
    services = make_services(sqlite_settings)
    environ = {**create_environ(headers={"X-Auth-Token": "admin"}), "PATH_INFO": ";x=1"}
    _, status, _ = run_wsgi_app(create_placement_app(services), environ)
    services.database.dispose()
    assert status == "404 Not Found"


def test_flask_hooks_and_routes_can_be_added_to_an_application(services):
    application = Application(services, {"/a": THINGS_API}, make_blueprint(services))
    client = TestApp(application)

    @application.before_request
    def reject_during_maintenance():
        if "X-Maintenance" in flask.request.headers:
            return {"status": "maintenance"}, 503
        return None

    @application.after_request
    def sign_response(response):
        response.headers["X-Signed"] = "yes"
        return response

    @application.get("/extension/<name>")
    def show_extension(name):
        return {"name": name}

    assert client.get("/extension/x").json == {"name": "x"}
    response = client.get("/a/things/x")
    assert (response.json["answered"], response.headers["X-Signed"]) == ("x", "yes")
    response = client.get("/a/things/x", headers={"X-Maintenance": "1"}, status=503)
    assert response.json == {"status": "maintenance"}
    response = client.delete("/a/things/x", headers=build_version_headers(LATEST), status=405)
    assert response.headers["X-Signed"] == "yes"
    assert client.post("/extension/x", status=405).headers["Allow"] == "GET, HEAD, OPTIONS"


@pytest.fixture(params=["/a", ""], ids=["below a prefix", "alone"])
def api_prefix(request):
    return request.param


@pytest.fixture
def application(services, api_prefix):
    return Application(services, {api_prefix: THINGS_API}, make_blueprint(services))


def test_flask_rule_of_an_extension_has_no_api_even_under_an_api_prefix(application, api_prefix):
    client = TestApp(application)

    @application.get("/extension/<name>")
    @application.get(f"{api_prefix}/things/<name>/extension")
    def show_extension(name):
        return {"name": name, "api": flask.request.api}

    for path in ("/extension/x", f"{api_prefix}/things/x/extension"):
        assert client.get(path).json == {"name": "x", "api": None}
    assert client.post("/extension/x", status=405).headers["Allow"] == "GET, HEAD, OPTIONS"
    client.get("/extension", status=404)
    client.post("/healthz", status=405)
    # A path below the prefix of the API needs a token.
    client.get(f"{api_prefix}/things/x/y", status=401)
    client.get(f"{api_prefix}/nowhere", status=401)


@pytest.mark.parametrize(
    ("version", "endpoint"), [("1.5", "first_handler"), ("1.6", "second_handler")]
)
def test_flask_extensions_can_wrap_handlers_of_routes(application, api_prefix, version, endpoint):
    """``flask.request.endpoint`` is the endpoint of the version, wrapped or not."""
    views = application.view_functions

    def wrap_view(view):
        def call_view_with_endpoint_header(*args, **names):
            response = view(*args, **names)
            return replace(response, headers={"X-Endpoint": flask.request.endpoint})

        return call_view_with_endpoint_header

    views.update({name: wrap_view(view) for name, view in views.items() if name.startswith("a.")})
    response = TestApp(application).get(
        f"{api_prefix}/things", headers=build_version_headers(version)
    )
    assert response.headers["X-Endpoint"] == f"a.things.{endpoint}"


def test_flask_extensions_can_replace_a_handler_with_a_view(application, api_prefix):
    application.view_functions["a.things.item_handler"] = lambda _call, uuid: (
        {"instead": uuid},
        418,
    )
    response = TestApp(application).get(f"{api_prefix}/things/x", status=418)
    assert response.json == {"instead": "x"}


def test_url_for_returns_paths_with_the_prefix_of_the_application(services):
    for api_prefix in ("/a", "/b"):
        application = Application(services, {api_prefix: THINGS_API}, make_blueprint(services))
        with application.test_request_context():
            assert (
                flask.url_for("a.things.item_handler", uuid="x y") == f"{api_prefix}/things/x%20y"
            )
