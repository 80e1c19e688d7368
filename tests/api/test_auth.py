# SPDX-License-Identifier: Apache-2.0
"""``[api] auth_strategy = keystone``: an identity service validates tokens over HTTP."""

import logging
import shutil
from collections.abc import Callable, Iterator
from importlib.util import find_spec

import pytest
from webtest import TestApp

from placement_sched.api.middleware import log_requests
from placement_sched.app import create_app, create_placement_app, make_services
from placement_sched.config.conf import read_files
from placement_sched.config.settings import Settings
from placement_sched.errors import ConfigurationError
from placement_sched.scheduler.plugins import make_full_conf
from tests.support import identity
from tests.support.identity import Identity, build_keystone_config

pytestmark = pytest.mark.slow

PROVIDERS_PATH = "/placement/resource_providers"
LATEST_HEADERS = {"OpenStack-API-Version": "placement latest"}

AppStarter = Callable[..., TestApp]


@pytest.fixture(scope="module")
def keystone() -> Iterator[Identity]:
    with identity.run_keystone() as service:
        yield service


@pytest.fixture
def start_app(make_configured_app: Callable[[str], TestApp]) -> AppStarter:
    return lambda url, **changes: make_configured_app(build_keystone_config(url, **changes))


@pytest.fixture(scope="module")
def keystone_app(keystone: Identity, sqlite_template, tmp_path_factory) -> Iterator[TestApp]:
    """A client of an application that tests only read."""
    folder = tmp_path_factory.mktemp("auth")
    shutil.copy(sqlite_template, folder / "own.db")
    file = folder / "placement.conf"
    database = f"[placement_database]\nconnection = sqlite:///{folder}/own.db\n"
    file.write_text(f"{build_keystone_config(keystone.url)}\n{database}")
    application = create_app(Settings.from_conf(read_files(make_full_conf(), [str(file)])))
    yield TestApp(application)
    application.close()


def build_headers(token: str, **more: str) -> dict[str, str]:
    return {**LATEST_HEADERS, "X-Auth-Token": token, **more}


def send_rejected_request_and_get_detail(app: TestApp, headers: dict[str, str]) -> str:
    """Return the error of a request that the Placement API rejects."""
    response = app.get(PROVIDERS_PATH, headers=headers, status=401)
    assert response.headers["WWW-Authenticate"] == 'Keystone uri="https://keystone.example.com/v3"'
    assert response.headers["X-Openstack-Request-Id"].startswith("req-")
    (error,) = response.json["errors"]
    assert (error["status"], error["title"]) == (401, "Unauthorized")
    return error["detail"]


def test_token_with_role_admin_or_service_is_accepted(keystone_app, keystone):
    for role in ["admin", "service"]:
        token = keystone.issue_token("ann", "shop", role)
        assert keystone_app.get(PROVIDERS_PATH, headers=build_headers(token)).json == {
            "resource_providers": []
        }, role


def test_access_log_names_the_user_of_the_token(keystone_app, keystone, caplog):
    caplog.set_level(logging.INFO)
    token = keystone.issue_token("ann", "shop", "admin")
    TestApp(log_requests(keystone_app.app)).get(PROVIDERS_PATH, headers=build_headers(token))
    (line,) = [r.getMessage() for r in caplog.records if r.name == log_requests.__module__]
    assert " - ann [" in line
    assert token not in caplog.text


def test_token_without_role_or_project_is_forbidden(keystone_app, keystone):
    system = keystone.issue_token("root", None, "admin", "reader", system={"all": True})
    service = keystone.issue_token("nova", "service", "service")
    for headers in (
        build_headers(keystone.issue_token("bob", "shop")),
        build_headers(keystone.issue_token("bob", "shop", "member", "reader")),
        build_headers(keystone.issue_token("bob", "shop", "Administrator")),
        build_headers(keystone.issue_token("bob", "shop", "reader"), **{"X-Roles": "admin"}),
        build_headers(system),
        build_headers(system, **{"X-Service-Token": service}),
    ):
        keystone_app.get(PROVIDERS_PATH, headers=headers, status=403)


def test_missing_and_invalid_tokens_are_401_with_the_reason(keystone_app, keystone):
    ann = ("ann", "shop", "admin")
    revoked = keystone.issue_token(*ann)
    keystone_app.get(PROVIDERS_PATH, headers=build_headers(revoked))
    keystone.revoke_token(revoked)
    for headers, words in (
        (LATEST_HEADERS, "No X-Auth-Token was given"),
        (build_headers("made-up"), "not valid"),
        (build_headers("admin"), "not valid"),
        (build_headers(keystone.issue_token(*ann, seconds=-5)), "expired"),
        (build_headers(revoked), ""),
        (
            {
                **LATEST_HEADERS,
                "X-Identity-Status": "Confirmed",
                "X-Roles": "admin",
                "X-User-Id": "eve",
            },
            "",
        ),
        ({**LATEST_HEADERS, "X-Identity-Unreachable": "1"}, ""),
        ({**LATEST_HEADERS, "X-Roles": "admin"}, ""),
    ):
        assert words in send_rejected_request_and_get_detail(keystone_app, headers), headers
    for role, seconds in (("service", -5), ("member", 60)):
        service = keystone.issue_token("nova", "service", role, seconds=seconds)
        headers = build_headers(keystone.issue_token(*ann), **{"X-Service-Token": service})
        assert "X-Service-Token" in send_rejected_request_and_get_detail(keystone_app, headers), (
            role,
            seconds,
        )


def test_expired_token_is_accepted_with_a_service_token(keystone_app, keystone):
    """A long operation can finish after its user's token has expired."""
    expired = keystone.issue_token("ann", "shop", "admin", seconds=-5)
    service = keystone.issue_token("nova", "service", "service")
    headers = build_headers(expired, **{"X-Service-Token": service})
    assert keystone_app.get(PROVIDERS_PATH, headers=headers).status_int == 200


def test_project_reader_can_read_usages_of_its_own_project(keystone_app, keystone):
    token = keystone.issue_token("bob", "shop", "reader")
    for query, status in (("project_id=shop", 200), ("project_id=other", 403), ("", 403)):
        keystone_app.get(f"/placement/usages?{query}", headers=build_headers(token), status=status)


def test_token_without_a_project_cannot_read_usages(keystone_app, keystone):
    for query in ["", "project_id=", "project_id=None"]:
        domain = {"id": "default", "name": "Default"}
        token = keystone.issue_token("root", None, "reader", domain=domain)
        keystone_app.get(f"/placement/usages?{query}", headers=build_headers(token), status=403)


PUBLIC_PATHS = [
    "/placement",
    "/placement/",
    "/compute",
    "/compute/v2.1",
    "/image",
    "/image/versions",
]


def test_public_version_documents_need_no_token(keystone_app):
    for path in (*PUBLIC_PATHS, "/image/v2", "/identity/v3", "/healthz", "/metrics"):
        for headers in ({}, {"X-Auth-Token": "made-up"}):
            assert keystone_app.get(path, headers=headers).status_int in {200, 300}, path


def test_error_of_a_rejected_token_has_the_format_of_each_api(keystone_app):
    for path, key in [
        ("/placement/traits", "errors"),
        ("/compute/v2.1/os-aggregates", "unauthorized"),
        ("/scheduler/v1/compute_nodes", "errors"),
    ]:
        response = keystone_app.get(path, status=401)
        assert list(response.json) == [key], (path, key)
        assert "WWW-Authenticate" in response.headers, (path, key)


def test_unavailable_keystone_is_503_and_not_401(start_app):
    app = start_app("http://127.0.0.1:1")
    response = app.get(PROVIDERS_PATH, headers=build_headers("any"), status=503)
    (error,) = response.json["errors"]
    assert "identity service" in error["detail"]
    assert app.get("/placement/", headers=build_headers("any")).status_int == 200
    assert "No X-Auth-Token" in send_rejected_request_and_get_detail(app, LATEST_HEADERS)


def test_rejected_service_password_is_503(start_app, keystone):
    app = start_app(keystone.url, password="wrong")
    token = keystone.issue_token("ann", "shop", "admin")
    app.get(PROVIDERS_PATH, headers=build_headers(token), status=503)


def test_missing_keystone_configuration_is_reported_at_start(make_configured_settings, keystone):
    with pytest.raises(ConfigurationError, match=r"\[keystone_authtoken\] auth_type"):
        create_app(make_configured_settings(build_keystone_config(keystone.url, auth_type="#")))


def test_missing_auth_option_is_reported_at_start(make_configured_settings, keystone):
    with pytest.raises(ConfigurationError, match=r"\[keystone_authtoken\].*auth_url"):
        create_app(make_configured_settings(build_keystone_config(keystone.url, auth_url="#")))


def test_application_with_only_the_placement_api_validates_tokens(
    make_configured_settings, keystone
):
    services = make_services(make_configured_settings(build_keystone_config(keystone.url)))
    app = TestApp(create_placement_app(services))
    token = keystone.issue_token("ann", "shop", "service")
    assert app.get("/").status_int == 200
    assert app.get("/resource_providers", headers=build_headers(token)).status_int == 200
    assert app.get("/resource_providers", status=401).headers["WWW-Authenticate"]
    services.database.dispose()


def test_token_is_cached_for_the_configured_time(start_app, keystone):
    app = start_app(keystone.url, token_cache_time="token_cache_time = 300")
    headers = build_headers(keystone.issue_token("ann", "shop", "admin"))
    before = keystone.validations
    for _ in range(3):
        app.get(PROVIDERS_PATH, headers=headers)
    assert keystone.validations == before + 1


def test_python_client_of_memcached_is_installed(make_configured_settings, keystone):
    options = "memcached_servers = 127.0.0.1:11211"
    create_app(
        make_configured_settings(build_keystone_config(keystone.url, token_cache_time=options))
    ).close()


@pytest.mark.skipif(find_spec("bmemcached") is not None, reason="the client is installed")
def test_missing_memcached_client_is_reported_at_start(make_configured_settings, keystone):
    options = "memcache_sasl_enabled = true\nmemcached_servers = 127.0.0.1:1"
    with pytest.raises(ConfigurationError, match="bmemcached"):
        create_app(
            make_configured_settings(build_keystone_config(keystone.url, token_cache_time=options))
        )


def issue_token_with_rules(keystone, *rules):
    """Issue a token of an application credential with these access rules."""
    every = [dict(zip(("service", "method", "path"), rule, strict=True)) for rule in rules]
    credential = {"id": "c", "name": "c", "restricted": True, "access_rules": every}
    return keystone.issue_token("ann", "shop", "admin", application_credential=credential)


def test_access_rule_allows_a_path_of_its_own_api(keystone_app, keystone):
    for service, path, address in [
        ("placement", "/resource_providers", "/placement/resource_providers"),
        ("placement", "/**", "/placement/resource_providers"),
        ("placement", "/placement/*", "/placement/resource_providers"),
        ("compute", "/v2.1/os-hypervisors", "/compute/v2.1/os-hypervisors"),
        ("compute", "/flavors/{id}", "/compute/v2.1/flavors/detail"),
        ("image", "/v2/images", "/image/v2/images"),
        ("scheduler", "/v1/hosts", "/scheduler/v1/hosts"),
    ]:
        token = issue_token_with_rules(keystone, (service, "GET", path))
        keystone_app.get(address, headers={"X-Auth-Token": token}, status=200)


def test_token_with_access_rules_of_placement_is_401_for_other_apis(keystone_app, keystone):
    token = issue_token_with_rules(keystone, ("placement", "GET", "/**"))
    for address in ["/compute/v2.1/os-hypervisors", "/image/v2/images", "/scheduler/v1/hosts"]:
        keystone_app.get(address, headers={"X-Auth-Token": token}, status=401)


def test_request_that_no_access_rule_allows_is_401(keystone_app, keystone):
    for rule in [
        ("placement", "POST", "/**"),
        ("placement", "GET", "/resource_provider"),
        ("placement", "GET", "/resource.providers"),
        ("compute", "GET", "/**"),
        ("scheduler", "GET", "/**"),
    ]:
        token = issue_token_with_rules(keystone, rule)
        keystone_app.get(PROVIDERS_PATH, headers=build_headers(token), status=401)
        keystone_app.get(
            PROVIDERS_PATH, headers=build_headers(issue_token_with_rules(keystone)), status=401
        )


def test_forwarded_prefix_does_not_affect_access_rules(make_configured_app, keystone):
    believing = "[oslo_middleware]\nenable_proxy_headers_parsing = true\n"
    app = make_configured_app(f"{build_keystone_config(keystone.url)}{believing}")
    forged = {"X-Forwarded-Prefix": "/public"}
    for path, status in (("/public/**", 401), ("/resource_providers", 200)):
        token = issue_token_with_rules(keystone, ("placement", "GET", path))
        app.get(PROVIDERS_PATH, headers=build_headers(token, **forged), status=status)


def test_access_rules_are_ignored_only_with_a_valid_service_token(keystone_app, keystone):
    token = issue_token_with_rules(keystone, ("compute", "GET", "/**"))
    keystone_app.get(
        PROVIDERS_PATH, headers=build_headers(token, **{"X-Service-Token": "none"}), status=401
    )
    service = keystone.issue_token("nova", "service", "service")
    keystone_app.get(
        PROVIDERS_PATH, headers=build_headers(token, **{"X-Service-Token": service}), status=200
    )
