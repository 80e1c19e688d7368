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
from placement_sched.operations.periodic import store_result
from tests.api.test_auth import build_config
from tests.chaos import access_rules
from tests.chaos.endpoints import ALWAYS_REJECTING, Endpoint, list_endpoints
from tests.chaos.http_clients import InProcessClient, send_json
from tests.chaos.run_length import TRIED, choose_count
from tests.chaos.valid_requests import (
    ALL_ROLES,
    PRIVATE,
    DrawnRequest,
    ExistingNames,
    ValidRequests,
    create_objects,
)
from tests.support import identity

pytestmark = pytest.mark.slow

PROJECT, OTHER_PROJECT = "shop", "bakery"
SYSTEM = {"system": {"all": True}}
LET_IN, FORBIDDEN, REFUSED, HIDDEN, AWAY = "let in", "forbidden", "refused", "hidden", "away"
#: Headers of keystonemiddleware for a caller with a valid token.
CONFIRMED = {
    "X-Identity-Status": "Confirmed",
    "X-Service-Identity-Status": "Confirmed",
    "X-User-Id": "eve",
    "X-Project-Id": PROJECT,
    "X-Roles": "admin,service",
    "X-Service-Roles": "admin,service",
    "X-Is-Admin-Project": "True",
}
#: For callers with forged headers or a second token, the caller of the table with the same access.
SAME_ACCESS = {
    "forged roles": "no role",
    "forged project": "reader elsewhere",
    "forged unreachable, with a token": "reader",
    "expired, with a service's token": "admin",
}
#: The same for pages, which read only the cookie.
SAME_ACCESS_ON_PAGES = {
    **SAME_ACCESS,
    "with a reader's token as a service's": "admin",
    "expired, with a service's token": "expired token",
}
#: Maximum number of draws until a request names an existing object.
DRAWS = 20
#: Callers with a valid token.
AUTHENTICATED = {*access_rules.ALL_IN_PROJECTS, *access_rules.OF_SYSTEM}
#: Endpoints with the same response for all callers.
ALWAYS = {"identity.versions.reject_request": FORBIDDEN}
#: Pages that redirect every caller to or from the login form.
SIGNING = {"console.sign_in", "console.sign_out"}
#: The cookie with the console's token.
COOKIE = "placement_sched_token"


@dataclass
class AppWithCallers:
    """An application, headers of each kind of caller, and headers of the creator of objects."""

    app: TestApp
    callers: Mapping[str, Mapping[str, str]]
    maker: Mapping[str, str] | None
    #: Whether pages need a token.
    guards_pages: bool = True
    valid: ValidRequests = field(init=False)

    def __post_init__(self) -> None:
        client = InProcessClient(self.app)

        def send(method: str, path: str, body: Any, version: str) -> Any:
            return send_json(client, method, path, body, version, self.maker or {})

        def get(path: str) -> Any:
            return send("GET", path, None, f"{path.split('/')[1]} latest")

        if self.maker is not None:
            create_objects(send, PROJECT)
        dice = random.Random(20261125)
        store_result(self.app.app.services.scheduler)
        self.valid = ValidRequests(ExistingNames(dice, get), dice, headers={}, more=0)
        self.valid.world.rarely = 0

    def request(self, endpoint: Endpoint) -> DrawnRequest:
        """Return a valid request without a token."""
        drawn = self.valid.draw_request(endpoint)
        path = drawn.path
        if endpoint.method == "GET" and not endpoint.rule.endswith("access"):
            path = path.replace(f"/flavors/{PRIVATE}", "/flavors/f2")
        query = [(name, PROJECT if name == "project_id" else value) for name, value in drawn.query]
        return replace(drawn, path=path, query=query)

    def answer(self, drawn: DrawnRequest, caller: str) -> tuple[str, int]:
        """Return the kind and the status of the response to a caller."""
        headers = {**drawn.headers, **self.callers[caller]}
        on_page = drawn.endpoint.api == "console"
        if on_page and "X-Auth-Token" in headers:
            headers["Cookie"] = f"{COOKIE}={headers.pop('X-Auth-Token')}"
        self.app.cookiejar.clear()
        request = self.app.RequestClass.blank(drawn.address, method=drawn.method, headers=headers)
        if drawn.body is not None:
            request.body = drawn.body
        answer = self.app.do_request(request, expect_errors=True)
        status: int = answer.status_int
        if status == 303 and drawn.endpoint.view not in SIGNING and on_page:
            if "/console/sign-in" in answer.headers["Location"]:
                return REFUSED, status
            # The search box opens the page of the only match.
            assert drawn.endpoint.view == "console.search_index"
        return {401: REFUSED, 403: FORBIDDEN, 404: HIDDEN, 503: AWAY}.get(status, LET_IN), status


def _join_roles(roles: tuple[str, ...]) -> str:
    return ",".join(roles) or "none"


@pytest.fixture
def noauth2_callers(make_configured_app: Callable[[str], TestApp]) -> AppWithCallers:
    callers: dict[str, Mapping[str, str]] = {
        name: {"X-Auth-Token": f"bob:{PROJECT}", "X-Roles": _join_roles(roles)}
        for name, roles in access_rules.ROLES.items()
    }
    for name, roles in access_rules.ELSEWHERE.items():
        callers[name] = {"X-Auth-Token": f"bob:{OTHER_PROJECT}", "X-Roles": _join_roles(roles)}
    for name, roles in access_rules.OF_SYSTEM.items():
        scope = {"OpenStack-System-Scope": "all", "X-Project-Id": ""}
        callers[name] = {"X-Auth-Token": "bob", "X-Roles": _join_roles(roles), **scope}
    maker = {**ALL_ROLES, "X-Auth-Token": f"bob:{PROJECT}"}
    app = make_configured_app("[api]\nauth_strategy = noauth2\n")
    return AppWithCallers(app, {**callers, "without token": {}}, maker, guards_pages=False)


@pytest.fixture
def keystone_callers(make_configured_app: Callable[[str], TestApp]) -> Iterator[AppWithCallers]:
    with identity.run_keystone() as service:
        here = f"www_authenticate_uri = {service.url}/v3"
        kept = "token_cache_time = 300"
        app = make_configured_app(
            build_config(service.url, www_authenticate_uri=here, token_cache_time=kept)
        )
        issue = service.issue_token
        tokens = {name: issue("bob", PROJECT, *roles) for name, roles in access_rules.ROLES.items()}
        for name, roles in access_rules.ELSEWHERE.items():
            tokens[name] = issue("bob", OTHER_PROJECT, *roles)
        for name, roles in access_rules.OF_SYSTEM.items():
            tokens[name] = issue("root", None, *roles, **SYSTEM)
        callers = {name: {"X-Auth-Token": token} for name, token in tokens.items()}
        expired = issue("bob", PROJECT, *access_rules.ROLES["admin"], seconds=-60)
        unreachable = {"X-Identity-Unreachable": "1"}
        callers |= {
            "without token": {},
            "unknown token": {"X-Auth-Token": "stolen"},
            "expired token": {"X-Auth-Token": expired},
            "forged headers": CONFIRMED,
            "forged roles": {**callers["no role"], **CONFIRMED},
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
        maker = issue("bob", PROJECT, "admin", "member", "reader", "service")
        yield AppWithCallers(app, callers, {"X-Auth-Token": maker})


@pytest.fixture
def callers_without_keystone(make_configured_app: Callable[[str], TestApp]) -> AppWithCallers:
    """Return an empty application whose keystone does not answer."""
    nowhere = "http://127.0.0.1:1"
    here = f"www_authenticate_uri = {nowhere}/v3"
    forged = {**CONFIRMED, "X-Identity-Unreachable": ""}
    callers = {"with a token": {"X-Auth-Token": "any"}, "without": {}, "forged": forged}
    app = make_configured_app(build_config(nowhere, www_authenticate_uri=here))
    return AppWithCallers(app, callers, maker=None)


def determine_expected_response(kinds: AppWithCallers, endpoint: Endpoint, caller: str) -> str:
    on_page = endpoint.api == "console"
    # Pages send a single token to the APIs.
    caller = (SAME_ACCESS_ON_PAGES if on_page else SAME_ACCESS).get(caller, caller)
    rule = access_rules.list_policy_rules_and_callers_by_route().get(endpoint.name)
    who = rule[1] if rule else access_rules.list_callers_by_page()[endpoint.name]
    if endpoint.view in ALWAYS:
        return ALWAYS[endpoint.view]
    if endpoint.view == "console._reject_unknown_path":
        return HIDDEN if endpoint.method == "GET" else LET_IN  # with 405
    if who is None or (on_page and not kinds.guards_pages):
        return LET_IN
    if caller in who:
        return HIDDEN if endpoint.view == "image.images.reject_members" else LET_IN
    if caller not in AUTHENTICATED:
        return REFUSED
    return HIDDEN if is_object_of_another_project(endpoint, caller) else FORBIDDEN


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


def sort_endpoints(endpoints: Iterable[Endpoint]) -> list[Endpoint]:
    """Return reading endpoints first, then writing endpoints, then deleting endpoints.

    Longer paths come first. Logout is last, because it revokes a token.
    """
    ranks = {"GET": 0, "HEAD": 0, "DELETE": 2}

    def key(endpoint: Endpoint) -> tuple[object, ...]:
        is_logout = endpoint.view == "console.sign_out"
        rank = ranks.get(endpoint.method, 1)
        return is_logout, rank, -len(endpoint.rule), endpoint.method == "POST"

    return sorted(endpoints, key=key)


def find_unexpected_responses(
    kinds: AppWithCallers, endpoint: Endpoint, callers: Iterable[str]
) -> Iterator[str]:
    """Yield the wrong responses to callers. Accepted callers send their requests last.

    If the first accepted caller gets 404, the object does not exist, and another request is drawn.
    """
    reads = endpoint.method in {"GET", "HEAD"}
    expected = {caller: determine_expected_response(kinds, endpoint, caller) for caller in callers}
    refused = [caller for caller in expected if expected[caller] != LET_IN]
    let_in = [caller for caller in expected if expected[caller] == LET_IN]
    for _ in range(DRAWS):
        drawn = kinds.request(endpoint)
        answers = {caller: kinds.answer(drawn, caller) for caller in [*refused, *let_in[:1]]}
        if not let_in or answers[let_in[0]][0] != HIDDEN:
            break
    for caller in let_in[1:]:
        answers[caller] = kinds.answer(drawn if reads else kinds.request(endpoint), caller)
    for caller, (answer, status) in answers.items():
        fits = answer == expected[caller]
        if expected[caller] == LET_IN and reads and endpoint.view not in ALWAYS_REJECTING:
            fits = status < 400
        # An earlier caller may have deleted the object.
        gone = answer == HIDDEN and not reads and caller in let_in[1:]
        if status >= 500 or not (fits or gone):
            name = f"{endpoint} ({drawn.address}), {caller}"
            yield f"{name}: {status} ({answer}), not {expected[caller]}"


def choose_callers(kinds: AppWithCallers, number: int) -> list[str]:
    """Return all callers, or in the short form an eighth that depends on ``number``."""
    share = choose_count(8, 1)
    return [
        caller
        for at, caller in enumerate(kinds.callers)
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
    "strategy", ["keystone_callers", pytest.param("noauth2_callers", marks=pytest.mark.exhaustive)]
)
def test_endpoint_accepts_only_callers_of_its_rule(strategy, request, record_property):
    kinds: AppWithCallers = request.getfixturevalue(strategy)
    endpoints = sort_endpoints(list_endpoints(kinds.app.app))
    assert len(endpoints) > 170
    endpoints = endpoints[:: choose_count(2, 1)]
    wrong: list[str] = []
    count = 0
    for number, endpoint in enumerate(endpoints):
        callers = choose_callers(kinds, number)
        count += len(callers)
        wrong += find_unexpected_responses(kinds, endpoint, callers)
    assert not wrong, "\n".join(wrong)
    record_property(TRIED, f"{count} times a caller at one of {len(endpoints)} routes and pages")


def test_callers_are_rejected_while_keystone_is_unavailable(
    callers_without_keystone, record_property
):
    kinds = callers_without_keystone
    endpoints = sort_endpoints(list_endpoints(kinds.app.app))[:: choose_count(5, 1)]
    wrong = []
    for endpoint in endpoints:
        drawn = kinds.request(endpoint)
        for caller in kinds.callers:
            expected = determine_expected_response(kinds, endpoint, caller)
            if expected == REFUSED and caller == "with a token":
                expected = AWAY
            if drawn.method == "POST" and endpoint.view == "console.sign_in":
                expected = AWAY
            answer, status = kinds.answer(drawn, caller)
            if answer != expected:
                wrong.append(f"{endpoint}, {caller}: {status} ({answer}), not {expected}")
    assert not wrong, "\n".join(wrong)
    record_property(TRIED, f"{len(endpoints)} routes and pages while keystone is away")
