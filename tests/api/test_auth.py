# SPDX-License-Identifier: Apache-2.0
"""``[api] auth_strategy = keystone``: tokens are checked by an identity service over HTTP."""

import logging
from collections.abc import Callable, Iterator
from importlib.util import find_spec

import pytest
from webtest import TestApp

from placement_sched.api.request_log import AccessLog
from placement_sched.app import create_app, make_services, placement_app
from placement_sched.errors import ConfigurationError
from tests.support import identity
from tests.support.identity import PASSWORD, USER, Identity

pytestmark = pytest.mark.slow

CONFIG = """
[api]
auth_strategy = keystone
[keystone_authtoken]
auth_type = password
auth_url = {keystone}/v3
username = {user}
password = {password}
user_domain_name = Default
project_domain_name = Default
project_name = service
www_authenticate_uri = https://keystone.example.com/v3
http_request_max_retries = 0
token_cache_time = -1
"""
PROVIDERS = "/placement/resource_providers"
LATEST = {"OpenStack-API-Version": "placement latest"}

Start = Callable[..., TestApp]


def config(url: str, password: str = PASSWORD, **replaced: str) -> str:
    """Return a configuration that asks the keystone at ``url``, some options of it replaced."""
    text = CONFIG.format(keystone=url, user=USER, password=password)
    for name, line in replaced.items():
        text = text.replace(f"{name} = ", f"{line}\n#")
    return text


@pytest.fixture
def keystone() -> Iterator[Identity]:
    with identity.run_keystone() as service:
        yield service


@pytest.fixture
def start(configured_app: Callable[[str], TestApp]) -> Start:
    return lambda url, **changes: configured_app(config(url, **changes))


@pytest.fixture
def app(start: Start, keystone: Identity) -> TestApp:
    return start(keystone.url)


def with_token(token: str, **more: str) -> dict[str, str]:
    return {**LATEST, "X-Auth-Token": token, **more}


def refused(app: TestApp, headers: dict[str, str]) -> str:
    """Return why the placement face lets a request in not at all."""
    answer = app.get(PROVIDERS, headers=headers, status=401)
    assert answer.headers["WWW-Authenticate"] == 'Keystone uri="https://keystone.example.com/v3"'
    assert answer.headers["X-Openstack-Request-Id"].startswith("req-")
    (error,) = answer.json["errors"]
    assert (error["status"], error["title"]) == (401, "Unauthorized")
    return error["detail"]


@pytest.mark.parametrize("role", ["admin", "service"])
def test_token_with_the_role_lets_in(app, keystone, role):
    token = keystone.issue("ann", "shop", role)
    assert app.get(PROVIDERS, headers=with_token(token)).json == {"resource_providers": []}


def test_access_log_names_the_user(app, keystone, caplog):
    caplog.set_level(logging.INFO)
    token = keystone.issue("ann", "shop", "admin")
    TestApp(AccessLog(app.app)).get(PROVIDERS, headers=with_token(token))
    (line,) = [r.getMessage() for r in caplog.records if r.name == AccessLog.__module__]
    assert " - ann [" in line
    assert token not in caplog.text


@pytest.mark.parametrize("roles", [(), ("member", "reader"), ("Administrator",)])
def test_token_without_the_role_is_forbidden(app, keystone, roles):
    token = keystone.issue("bob", "shop", *roles)
    app.get(PROVIDERS, headers=with_token(token), status=403)


def test_no_token_is_refused_with_the_address_of_keystone(app):
    assert refused(app, LATEST) == "No X-Auth-Token was given"


def test_token_nobody_issued_is_refused(app):
    assert "not valid" in refused(app, with_token("made-up"))


def test_noauth2_token_is_refused(app):
    assert "not valid" in refused(app, with_token("admin"))


def test_expired_token_is_refused(app, keystone):
    assert "expired" in refused(app, with_token(keystone.issue("ann", "shop", "admin", seconds=-5)))


def test_revoked_token_is_refused_from_then_on(app, keystone):
    headers = with_token(keystone.issue("ann", "shop", "admin"))
    app.get(PROVIDERS, headers=headers)
    keystone.revoke(headers["X-Auth-Token"])
    refused(app, headers)


@pytest.mark.parametrize(
    "forged",
    [
        {"X-Identity-Status": "Confirmed", "X-Roles": "admin", "X-User-Id": "eve"},
        {"X-Identity-Unreachable": "1"},
        {"X-Roles": "admin"},
    ],
    ids=str,
)
def test_headers_of_the_middleware_cannot_be_forged(app, forged):
    refused(app, {**LATEST, **forged})


def test_role_header_adds_nothing_to_a_token(app, keystone):
    token = keystone.issue("bob", "shop", "reader")
    app.get(PROVIDERS, headers=with_token(token, **{"X-Roles": "admin"}), status=403)


def test_expired_token_passes_with_a_service_token(app, keystone):
    """A long operation ends, though its user's token ran out meanwhile."""
    expired = keystone.issue("ann", "shop", "admin", seconds=-5)
    service = keystone.issue("nova", "service", "service")
    headers = with_token(expired, **{"X-Service-Token": service})
    assert app.get(PROVIDERS, headers=headers).status_int == 200


@pytest.mark.parametrize(
    ("role", "seconds"), [("service", -5), ("member", 60)], ids=["expired", "not a service's"]
)
def test_wrong_service_token_is_refused(app, keystone, role, seconds):
    token = keystone.issue("ann", "shop", "admin")
    service = keystone.issue("nova", "service", role, seconds=seconds)
    assert "X-Service-Token" in refused(app, with_token(token, **{"X-Service-Token": service}))


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ("project_id=shop", 200),
        ("project_id=other", 403),
        ("", 403),
        ("project_id=", 403),
        ("project_id=shop&colour=red", 400),
        ("project_id=other&colour=red", 403),
        ("project_id=other&project_id=shop", 200),
        ("project_id=shop&project_id=other", 403),
    ],
)
def test_project_reader_sees_usages_of_the_own_project(app, keystone, query, status):
    token = keystone.issue("bob", "shop", "reader")
    app.get(f"/placement/usages?{query}", headers=with_token(token), status=status)


SYSTEM = {"system": {"all": True}}


def test_system_token_is_out_of_scope(app, keystone):
    token = keystone.issue("root", None, "admin", "reader", **SYSTEM)
    app.get(PROVIDERS, headers=with_token(token), status=403)


@pytest.mark.parametrize("query", ["", "project_id=", "project_id=None"])
def test_token_without_a_project_reads_no_usages(app, keystone, query):
    domain = {"id": "default", "name": "Default"}
    token = keystone.issue("root", None, "reader", domain=domain)
    app.get(f"/placement/usages?{query}", headers=with_token(token), status=403)


def test_service_token_does_not_change_the_users_scope(app, keystone):
    token = keystone.issue("root", None, "admin", **SYSTEM)
    service = keystone.issue("nova", "service", "service")
    headers = with_token(token, **{"X-Service-Token": service})
    app.get(PROVIDERS, headers=headers, status=403)


PUBLIC = ["/placement", "/placement/", "/compute", "/compute/v2.1", "/image", "/image/versions"]


@pytest.mark.parametrize("path", [*PUBLIC, "/image/v2", "/identity/v3", "/healthz", "/metrics"])
@pytest.mark.parametrize("headers", [{}, {"X-Auth-Token": "made-up"}], ids=["none", "wrong"])
def test_public_document_needs_no_token(app, path, headers):
    assert app.get(path, headers=headers).status_int in {200, 300}


@pytest.mark.parametrize(
    ("path", "key"),
    [
        ("/placement/traits", "errors"),
        ("/compute/v2.1/os-aggregates", "unauthorized"),
        ("/scheduler/v1/compute_nodes", "errors"),
    ],
)
def test_each_face_refuses_in_its_own_shape(app, path, key):
    answer = app.get(path, status=401)
    assert list(answer.json) == [key]
    assert "WWW-Authenticate" in answer.headers


def test_keystone_away_is_unavailable_and_not_a_wrong_token(start):
    app = start("http://127.0.0.1:1")
    answer = app.get(PROVIDERS, headers=with_token("any"), status=503)
    (error,) = answer.json["errors"]
    assert "identity service" in error["detail"]
    assert app.get("/placement/", headers=with_token("any")).status_int == 200
    assert "No X-Auth-Token" in refused(app, LATEST)


def test_own_password_refused_by_keystone_is_unavailable(start, keystone):
    app = start(keystone.url, password="wrong")
    token = keystone.issue("ann", "shop", "admin")
    app.get(PROVIDERS, headers=with_token(token), status=503)


def test_unconfigured_keystone_is_told_at_start(configured, keystone):
    with pytest.raises(ConfigurationError, match=r"\[keystone_authtoken\] auth_type"):
        create_app(configured(config(keystone.url, auth_type="#")))


def test_missing_option_of_the_auth_type_is_told_at_start(configured, keystone):
    with pytest.raises(ConfigurationError, match=r"\[keystone_authtoken\].*auth_url"):
        create_app(configured(config(keystone.url, auth_url="#")))


def test_placement_alone_asks_keystone_too(configured, keystone):
    services = make_services(configured(config(keystone.url)))
    app = TestApp(placement_app(services))
    token = keystone.issue("ann", "shop", "service")
    assert app.get("/").status_int == 200
    assert app.get("/resource_providers", headers=with_token(token)).status_int == 200
    assert app.get("/resource_providers", status=401).headers["WWW-Authenticate"]
    services.database.dispose()


def test_token_is_remembered_for_the_configured_time(start, keystone):
    app = start(keystone.url, token_cache_time="token_cache_time = 300")
    headers = with_token(keystone.issue("ann", "shop", "admin"))
    for _ in range(3):
        app.get(PROVIDERS, headers=headers)
    assert keystone.asked == 1


def test_client_of_memcached_is_installed(configured, keystone):
    options = "memcached_servers = 127.0.0.1:11211"
    create_app(configured(config(keystone.url, token_cache_time=options))).close()


@pytest.mark.skipif(find_spec("bmemcached") is not None, reason="the client is installed")
def test_missing_client_of_memcached_is_told_at_start(configured, keystone):
    options = "memcache_sasl_enabled = true\nmemcached_servers = 127.0.0.1:1"
    with pytest.raises(ConfigurationError, match="bmemcached"):
        create_app(configured(config(keystone.url, token_cache_time=options)))


def restricted(keystone, *rules):
    """Issue a token of an application credential with these access rules."""
    every = [dict(zip(("service", "method", "path"), rule, strict=True)) for rule in rules]
    credential = {"id": "c", "name": "c", "restricted": True, "access_rules": every}
    return keystone.issue("ann", "shop", "admin", application_credential=credential)


@pytest.mark.parametrize(
    ("service", "path", "address"),
    [
        ("placement", "/resource_providers", "/placement/resource_providers"),
        ("placement", "/**", "/placement/resource_providers"),
        ("placement", "/placement/*", "/placement/resource_providers"),
        ("compute", "/v2.1/os-hypervisors", "/compute/v2.1/os-hypervisors"),
        ("compute", "/flavors/{id}", "/compute/v2.1/flavors/detail"),
        ("image", "/v2/images", "/image/v2/images"),
        ("placement-scheduler", "/v1/hosts", "/scheduler/v1/hosts"),
    ],
)
def test_access_rule_allows_a_path_of_its_own_api(app, keystone, service, path, address):
    token = restricted(keystone, (service, "GET", path))
    app.get(address, headers={"X-Auth-Token": token}, status=200)


@pytest.mark.parametrize(
    "address", ["/compute/v2.1/os-hypervisors", "/image/v2/images", "/scheduler/v1/hosts"]
)
def test_access_rules_of_placement_open_no_other_api(app, keystone, address):
    token = restricted(keystone, ("placement", "GET", "/**"))
    app.get(address, headers={"X-Auth-Token": token}, status=401)


@pytest.mark.parametrize(
    "rule",
    [
        ("placement", "POST", "/**"),
        ("placement", "GET", "/resource_provider"),
        ("placement", "GET", "/resource.providers"),
        ("compute", "GET", "/**"),
        ("scheduler", "GET", "/**"),
    ],
)
def test_request_that_no_access_rule_allows_is_401(app, keystone, rule):
    token = restricted(keystone, rule)
    app.get(PROVIDERS, headers=with_token(token), status=401)
    app.get(PROVIDERS, headers=with_token(restricted(keystone)), status=401)


def test_forwarded_prefix_makes_no_path_fit_an_access_rule(configured_app, keystone):
    believing = "[oslo_middleware]\nenable_proxy_headers_parsing = true\n"
    app = configured_app(f"{config(keystone.url)}{believing}")
    forged = {"X-Forwarded-Prefix": "/public"}
    for path, status in (("/public/**", 401), ("/resource_providers", 200)):
        token = restricted(keystone, ("placement", "GET", path))
        app.get(PROVIDERS, headers=with_token(token, **forged), status=status)


def test_invalid_service_token_does_not_lift_access_rules(app, keystone):
    token = restricted(keystone, ("compute", "GET", "/**"))
    app.get(PROVIDERS, headers=with_token(token, **{"X-Service-Token": "none"}), status=401)
    service = keystone.issue("nova", "service", "service")
    app.get(PROVIDERS, headers=with_token(token, **{"X-Service-Token": service}), status=200)
