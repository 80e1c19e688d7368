# SPDX-License-Identifier: Apache-2.0
"""Access of every kind of caller to every route and page, with noauth2 and with keystone.

The application lists the endpoints, so the tests include new routes. ``access_rules.py`` lists the
callers that may use them. Requests are valid and name existing objects of a project: an accepted
caller gets 200, not 404.
"""

import random
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from webtest import TestApp

from placement_sched.app import create_app
from placement_sched.extensions.what_if.failover.task import store_result
from placement_sched.extensions.what_if.violations.task import ViolationRun
from tests.chaos import access_rules
from tests.chaos.endpoints import REJECTING_VIEWS, Endpoint, list_endpoints
from tests.chaos.http_clients import InProcessClient, send_json
from tests.chaos.run_length import TRIED_KEY, choose_count
from tests.chaos.valid_requests import (
    ADMIN_SERVICE_HEADERS,
    PRIVATE_FLAVOR,
    DrawnRequest,
    ExistingNameDrawer,
    ValidRequestDrawer,
    create_cloud_objects,
)
from tests.support import identity
from tests.support.identity import build_keystone_config

pytestmark = pytest.mark.slow

PROJECT, OTHER_PROJECT = "shop", "bakery"
SYSTEM_SCOPE = {"system": {"all": True}}
ACCEPTED, FORBIDDEN, NOT_FOUND = "accepted", "forbidden", "not found"
UNAUTHORIZED, UNAVAILABLE = "unauthorized", "unavailable"
#: Headers of keystonemiddleware for a caller with a valid token.
VALID_TOKEN_HEADERS = {
    "X-Identity-Status": "Confirmed",
    "X-Service-Identity-Status": "Confirmed",
    "X-User-Id": "eve",
    "X-Project-Id": PROJECT,
    "X-Roles": "admin,service",
    "X-Service-Roles": "admin,service",
    "X-Is-Admin-Project": "True",
}
#: For callers with forged headers or a second token, the caller of the table with the same access.
EQUIVALENT_CALLERS = {
    "forged roles": "no role",
    "forged project": "reader elsewhere",
    "forged unreachable, with a token": "reader",
    "expired, with a service's token": "admin",
}
#: The same for pages, which read only the cookie.
EQUIVALENT_CALLERS_ON_PAGES = {
    **EQUIVALENT_CALLERS,
    "with a reader's token as a service's": "admin",
    "expired, with a service's token": "expired token",
}
#: Maximum number of draws until a request names an existing object.
MAX_REQUEST_DRAWS = 20
#: Callers with a valid token.
AUTHENTICATED_CALLERS = {*access_rules.PROJECT_CALLERS, *access_rules.SYSTEM_ROLES}
#: Endpoints with the same response for all callers.
FIXED_RESPONSES = {"identity.versions.reject_request": FORBIDDEN}
#: Pages that redirect every caller to or from the login form.
LOGIN_VIEWS = {"console.sign_in", "console.sign_out"}
#: The cookie with the console's token.
COOKIE_NAME = "placement_sched_token"


@dataclass
class AppWithCallers:
    """An application, headers of each kind of caller, and headers of the creator of objects."""

    client: TestApp
    callers: Mapping[str, Mapping[str, str]]
    creator_headers: Mapping[str, str] | None
    #: Whether pages need a token.
    pages_need_token: bool = True
    valid_requests: ValidRequestDrawer = field(init=False)

    def __post_init__(self) -> None:
        client = InProcessClient(self.client)

        def send_as_creator(method: str, path: str, body: Any, version: str) -> Any:
            return send_json(client, method, path, body, version, self.creator_headers or {})

        def read_as_creator(path: str) -> Any:
            return send_as_creator("GET", path, None, f"{path.split('/')[1]} latest")

        if self.creator_headers is not None:
            create_cloud_objects(send_as_creator, PROJECT)
        dice = random.Random(20261125)
        store_result(self.client.app.services.scheduler)
        ViolationRun(self.client.app.services.scheduler).run_round()
        self.valid_requests = ValidRequestDrawer(
            ExistingNameDrawer(dice, read_as_creator), dice, headers={}, optional_share=0
        )
        self.valid_requests.names.missing_share = 0

    def draw_request(self, endpoint: Endpoint) -> DrawnRequest:
        """Return a valid request without a token."""
        drawn = self.valid_requests.draw_request(endpoint)
        path = drawn.path
        if endpoint.method == "GET" and not endpoint.rule.endswith("access"):
            path = path.replace(f"/flavors/{PRIVATE_FLAVOR}", "/flavors/f2")
        query = [(name, PROJECT if name == "project_id" else value) for name, value in drawn.query]
        return replace(drawn, path=path, query=query)

    def send_request_as(self, drawn: DrawnRequest, caller: str) -> tuple[str, int]:
        """Return the kind and the status of the response to a caller."""
        headers = {**drawn.headers, **self.callers[caller]}
        on_page = drawn.endpoint.api == "console"
        if on_page and "X-Auth-Token" in headers:
            headers["Cookie"] = f"{COOKIE_NAME}={headers.pop('X-Auth-Token')}"
        self.client.cookiejar.clear()
        request = self.client.RequestClass.blank(drawn.url, method=drawn.method, headers=headers)
        if drawn.body is not None:
            request.body = drawn.body
        response = self.client.do_request(request, expect_errors=True)
        status: int = response.status_int
        if status == 303 and drawn.endpoint.view not in LOGIN_VIEWS and on_page:
            if "/console/sign-in" in response.headers["Location"]:
                return UNAUTHORIZED, status
            # The search box opens the page of the only match.
            assert drawn.endpoint.view == "console.search_index"
        return {401: UNAUTHORIZED, 403: FORBIDDEN, 404: NOT_FOUND, 503: UNAVAILABLE}.get(
            status, ACCEPTED
        ), status


def _join_roles(roles: tuple[str, ...]) -> str:
    return ",".join(roles) or "none"


@pytest.fixture
def noauth2_app(make_configured_app: Callable[[str], TestApp]) -> AppWithCallers:
    callers: dict[str, Mapping[str, str]] = {
        name: {"X-Auth-Token": f"bob:{PROJECT}", "X-Roles": _join_roles(roles)}
        for name, roles in access_rules.PROJECT_ROLES.items()
    }
    for name, roles in access_rules.OTHER_PROJECT_ROLES.items():
        callers[name] = {"X-Auth-Token": f"bob:{OTHER_PROJECT}", "X-Roles": _join_roles(roles)}
    for name, roles in access_rules.SYSTEM_ROLES.items():
        scope = {"OpenStack-System-Scope": "all", "X-Project-Id": ""}
        callers[name] = {"X-Auth-Token": "bob", "X-Roles": _join_roles(roles), **scope}
    creator_headers = {**ADMIN_SERVICE_HEADERS, "X-Auth-Token": f"bob:{PROJECT}"}
    app = make_configured_app("[api]\nauth_strategy = noauth2\n")
    return AppWithCallers(
        app, {**callers, "without token": {}}, creator_headers, pages_need_token=False
    )


@pytest.fixture
def keystone_app(make_configured_app: Callable[[str], TestApp]) -> Iterator[AppWithCallers]:
    with identity.run_keystone() as service:
        here = f"www_authenticate_uri = {service.url}/v3"
        kept = "token_cache_time = 300"
        app = make_configured_app(
            build_keystone_config(service.url, www_authenticate_uri=here, token_cache_time=kept)
        )
        issue = service.issue_token
        tokens = {
            name: issue("bob", PROJECT, *roles)
            for name, roles in access_rules.PROJECT_ROLES.items()
        }
        for name, roles in access_rules.OTHER_PROJECT_ROLES.items():
            tokens[name] = issue("bob", OTHER_PROJECT, *roles)
        for name, roles in access_rules.SYSTEM_ROLES.items():
            tokens[name] = issue("root", None, *roles, **SYSTEM_SCOPE)
        callers = {name: {"X-Auth-Token": token} for name, token in tokens.items()}
        expired = issue("bob", PROJECT, *access_rules.PROJECT_ROLES["admin"], seconds=-60)
        unreachable = {"X-Identity-Unreachable": "1"}
        callers |= {
            "without token": {},
            "unknown token": {"X-Auth-Token": "stolen"},
            "expired token": {"X-Auth-Token": expired},
            "forged headers": VALID_TOKEN_HEADERS,
            "forged roles": {**callers["no role"], **VALID_TOKEN_HEADERS},
            "forged project": {**callers["reader elsewhere"], "X-Project-Id": PROJECT},
            "forged unreachable": unreachable,
            "forged unreachable, with a token": {**callers["reader"], **unreachable},
            "expired, with a service's token": {
                "X-Auth-Token": expired,
                "X-Service-Token": tokens["service"],
            },
            "with a reader's token as a service's": {
                **callers["admin"],
                "X-Service-Token": tokens["reader"],
            },
        }
        creator_token = issue("bob", PROJECT, "admin", "member", "reader", "service")
        yield AppWithCallers(app, callers, {"X-Auth-Token": creator_token})


@pytest.fixture
def app_without_keystone(make_configured_app: Callable[[str], TestApp]) -> AppWithCallers:
    """Return an empty application whose keystone does not answer."""
    nowhere = "http://127.0.0.1:1"
    here = f"www_authenticate_uri = {nowhere}/v3"
    forged = {**VALID_TOKEN_HEADERS, "X-Identity-Unreachable": ""}
    callers = {"with a token": {"X-Auth-Token": "any"}, "without": {}, "forged": forged}
    app = make_configured_app(build_keystone_config(nowhere, www_authenticate_uri=here))
    return AppWithCallers(app, callers, creator_headers=None)


def determine_expected_response(app: AppWithCallers, endpoint: Endpoint, caller: str) -> str:
    on_page = endpoint.api == "console"
    # Pages send a single token to the APIs.
    caller = (EQUIVALENT_CALLERS_ON_PAGES if on_page else EQUIVALENT_CALLERS).get(caller, caller)
    rule = access_rules.list_policy_rules_and_callers_by_route().get(endpoint.name)
    who = rule[1] if rule else access_rules.list_callers_by_page()[endpoint.name]
    if endpoint.view in FIXED_RESPONSES:
        return FIXED_RESPONSES[endpoint.view]
    if endpoint.view == "console._reject_unknown_path":
        return NOT_FOUND if endpoint.method == "GET" else ACCEPTED  # with 405
    if who is None or (on_page and not app.pages_need_token):
        return ACCEPTED
    if caller in who:
        is_rejected = endpoint.view in {"image.images.reject_import", "image.images.reject_members"}
        return NOT_FOUND if is_rejected else ACCEPTED
    if caller not in AUTHENTICATED_CALLERS:
        return UNAUTHORIZED
    return NOT_FOUND if is_object_of_another_project(endpoint, caller) else FORBIDDEN


def is_object_of_another_project(endpoint: Endpoint, caller: str) -> bool:
    """Return whether the caller gets 404 for an object of another project.

    The policy rule accepts the caller, but only for objects of its own project.
    """
    if caller not in {"reader elsewhere", "member elsewhere"}:
        return False
    if endpoint.rule == "/compute/v2.1/servers/<server_id>":
        return endpoint.method == "GET"
    if not endpoint.rule.startswith("/image/v2/images/<image_id>") or "/actions/" in endpoint.rule:
        return False
    return endpoint.method == "GET" or caller == "member elsewhere"


def sort_endpoints_by_effect(endpoints: Iterable[Endpoint]) -> list[Endpoint]:
    """Return reading endpoints first, then writing endpoints, then deleting endpoints.

    Longer paths come first. Logout is last, because it revokes a token.
    """
    ranks = {"GET": 0, "HEAD": 0, "DELETE": 2}

    def build_sort_key(endpoint: Endpoint) -> tuple[object, ...]:
        is_logout = endpoint.view == "console.sign_out"
        rank = ranks.get(endpoint.method, 1)
        return is_logout, rank, -len(endpoint.rule), endpoint.method == "POST"

    return sorted(endpoints, key=build_sort_key)


def find_unexpected_responses(
    app: AppWithCallers, endpoint: Endpoint, callers: Iterable[str]
) -> Iterator[str]:
    """Yield the wrong responses to callers. Accepted callers send their requests last.

    If the first accepted caller gets 404, the object does not exist, and another request is drawn.
    """
    is_read = endpoint.method in {"GET", "HEAD"}
    expected = {caller: determine_expected_response(app, endpoint, caller) for caller in callers}
    rejected = [caller for caller in expected if expected[caller] != ACCEPTED]
    accepted = [caller for caller in expected if expected[caller] == ACCEPTED]
    for _ in range(MAX_REQUEST_DRAWS):
        drawn = app.draw_request(endpoint)
        responses = {
            caller: app.send_request_as(drawn, caller) for caller in [*rejected, *accepted[:1]]
        }
        if not accepted or responses[accepted[0]][0] != NOT_FOUND:
            break
    for caller in accepted[1:]:
        responses[caller] = app.send_request_as(
            drawn if is_read else app.draw_request(endpoint), caller
        )
    for caller, (response, status) in responses.items():
        is_expected = response == expected[caller]
        if expected[caller] == ACCEPTED and is_read and endpoint.view not in REJECTING_VIEWS:
            is_expected = status < 400
        # An earlier caller may have deleted the object.
        may_be_deleted = response == NOT_FOUND and not is_read and caller in accepted[1:]
        if status >= 500 or not (is_expected or may_be_deleted):
            name = f"{endpoint} ({drawn.url}), {caller}"
            yield f"{name}: {status} ({response}), not {expected[caller]}"


def choose_callers(app: AppWithCallers, number: int) -> list[str]:
    """Return all callers, or in the short form an eighth that depends on ``number``."""
    share = choose_count(8, 1)
    return [
        caller
        for at, caller in enumerate(app.callers)
        if (at + number) % share == 0 or caller in {"admin", "without token"}
    ]


def test_each_route_has_the_expected_policy_rule(sqlite_settings):
    application = create_app(sqlite_settings)
    endpoints = list(list_endpoints(application))
    application.close()
    guarded = {
        endpoint.name: endpoint.route.policy
        for endpoint in endpoints
        if endpoint.route and endpoint.route.policy
    }
    assert guarded == {
        name: rule
        for name, (rule, _who) in access_rules.list_policy_rules_and_callers_by_route().items()
    }
    assert {endpoint.name for endpoint in endpoints} - set(guarded) == set(
        access_rules.list_callers_by_page()
    )


@pytest.mark.parametrize(
    "strategy", ["keystone_app", pytest.param("noauth2_app", marks=pytest.mark.exhaustive)]
)
def test_endpoint_accepts_only_callers_of_its_policy_rule(strategy, request, record_property):
    app: AppWithCallers = request.getfixturevalue(strategy)
    endpoints = sort_endpoints_by_effect(list_endpoints(app.client.app))
    assert len(endpoints) > 170
    endpoints = endpoints[:: choose_count(2, 1)]
    wrong: list[str] = []
    count = 0
    for number, endpoint in enumerate(endpoints):
        callers = choose_callers(app, number)
        count += len(callers)
        wrong += find_unexpected_responses(app, endpoint, callers)
    assert not wrong, "\n".join(wrong)
    record_property(
        TRIED_KEY, f"{count} times a caller at one of {len(endpoints)} routes and pages"
    )


def test_callers_are_rejected_while_keystone_is_unavailable(app_without_keystone, record_property):
    app = app_without_keystone
    endpoints = sort_endpoints_by_effect(list_endpoints(app.client.app))[:: choose_count(5, 1)]
    wrong = []
    for endpoint in endpoints:
        drawn = app.draw_request(endpoint)
        for caller in app.callers:
            expected = determine_expected_response(app, endpoint, caller)
            if expected == UNAUTHORIZED and caller == "with a token":
                expected = UNAVAILABLE
            if drawn.method == "POST" and endpoint.view == "console.sign_in":
                expected = UNAVAILABLE
            response, status = app.send_request_as(drawn, caller)
            if response != expected:
                wrong.append(f"{endpoint}, {caller}: {status} ({response}), not {expected}")
    assert not wrong, "\n".join(wrong)
    record_property(TRIED_KEY, f"{len(endpoints)} routes and pages while keystone is away")
