# SPDX-License-Identifier: Apache-2.0
"""The root document of the service, and the errors of unknown paths."""

from placement_sched.api.placement.microversions import NEWEST
from placement_sched.api.scheduler.routes import API

API_NAMES = ["placement", "compute", "image", "identity", "scheduler"]


def test_root_document_lists_every_api_with_its_versions_and_address(sqlite_app):
    response = sqlite_app.get("/", headers={"X-Auth-Token": ""})
    assert response.content_type == "application/json"
    apis = {api["name"]: api["versions"] for api in response.json["apis"]}
    assert list(apis) == API_NAMES
    assert apis["placement"] == [
        {
            "id": "v1.0",
            "status": "CURRENT",
            "min_version": "1.0",
            "max_version": str(NEWEST),
            "links": [{"rel": "self", "href": "http://localhost/placement/"}],
        }
    ]
    assert apis["image"][0]["max_version"] is None


def test_root_document_contains_the_version_document_of_each_api(sqlite_app):
    apis = {api["name"]: api["versions"][0] for api in sqlite_app.get("/").json["apis"]}
    placement = sqlite_app.get("/placement/").json["versions"][0]
    compute = sqlite_app.get("/compute/").json["versions"][0]
    assert {key: apis["placement"][key] for key in ("id", "min_version", "max_version")} == {
        key: placement[key] for key in ("id", "min_version", "max_version")
    }
    assert [apis["compute"][key] for key in ("id", "min_version", "max_version")] == [
        compute[key] for key in ("id", "min_version", "version")
    ]
    assert apis["compute"]["links"] == compute["links"]
    assert apis["image"]["id"] == sqlite_app.get("/image/versions").json["versions"][0]["id"]
    assert apis["identity"]["id"] == sqlite_app.get("/identity/v3").json["version"]["id"]
    assert apis["scheduler"]["id"] == sqlite_app.get("/scheduler/v1").json["id"]


def test_every_link_of_the_root_document_is_served(sqlite_app):
    document = sqlite_app.get("/").json
    links = [*document["links"], *(api["versions"][0]["links"][0] for api in document["apis"])]
    assert [link["rel"] for link in document["links"]] == ["health", "readiness", "metrics"]
    for link in links:
        sqlite_app.get(link["href"], status=200)


def test_links_of_the_root_document_use_the_proxy_address(sqlite_app):
    for prefix in ["", "/front"]:
        environ = {
            "SCRIPT_NAME": prefix,
            "HTTP_HOST": "sched.example.com",
            "wsgi.url_scheme": "https",
        }
        document = sqlite_app.get("/", extra_environ=environ).json
        assert document["links"][0]["href"] == f"https://sched.example.com{prefix}/healthz", prefix


def test_unknown_paths_are_404_with_a_list_of_the_apis(sqlite_app):
    for path in ["/nothing", "/favicon.ico", "/v1", "/placements", "//", "/x/y"]:
        for method in ["GET", "POST", "DELETE"]:
            response = sqlite_app.request(path, method=method, status=404)
            assert response.content_type == "application/json"
            (error,) = response.json["errors"]
            assert error == {
                "status": 404,
                "title": "Not Found",
                "detail": "Nothing is served at this path. APIs: /placement, /compute, /image, "
                "/identity, /scheduler",
                "request_id": response.headers["X-Openstack-Request-Id"],
            }


def test_root_document_is_read_only(sqlite_app):
    response = sqlite_app.head("/")
    assert response.body == b""
    assert int(response.headers["Content-Length"]) > 100
    response = sqlite_app.post("/", status=405)
    assert response.headers["Allow"] == "GET, HEAD"
    assert response.json["errors"][0]["status"] == 405


def test_scheduler_document_lists_every_resource(sqlite_app):
    resources = sqlite_app.get("/scheduler/v1").json["resources"]
    assert "decisions" in resources
    served = {route.path.split("/")[2] for route in API.routes if route.path[4:]}
    served.remove("openapi.json")
    assert set(resources) == served
    assert resources["decisions"] == "/scheduler/v1/decisions"
