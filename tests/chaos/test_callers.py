"""Every route, asked by every kind of caller, under noauth2 and under keystone.

The routes are those of the application, so that one that is added is asked as well. Who may do what
is written here by hand, for each form of rule that there is.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import pytest
from webtest import TestApp, TestRequest

from placement_sched.api.blueprint import PARAMETER, Route
from placement_sched.api.microversion import NEVER
from placement_sched.api.rules import RULES
from tests import identity
from tests.api.test_auth_keystone import config
from tests.chaos.grammar import UUIDS
from tests.chaos.scale import TRIED

PROJECT = "shop"
#: Callers by the roles that their token has in the project.
ROLES = {
    "reader": ("reader",),
    "member": ("member", "reader"),
    "service": ("service",),
    "admin": ("admin", "member", "reader"),
    "no role": (),
}
#: A caller who has a role in another project than the one that is asked about.
ELSEWHERE, OTHER_PROJECT = "reader elsewhere", "bakery"
#: Who passes a rule, by its words; aliases are written out.
ALLOWED: Mapping[str, frozenset[str]] = {
    "role:admin": frozenset({"admin"}),
    "role:service": frozenset({"service"}),
    "role:admin or role:service": frozenset({"admin", "service"}),
    "role:reader and project_id:%(project_id)s or role:admin": frozenset(
        {"reader", "member", "admin"}
    ),
    "role:member and project_id:%(project_id)s or role:admin": frozenset({"member", "admin"}),
    "role:admin or role:reader and project_id:%(project_id)s or role:service": frozenset(
        {"reader", "member", "admin", "service"}
    ),
    "role:admin or role:reader or (role:member and project_id:%(project_id)s)": frozenset(
        {"reader", "member", "admin"}
    ),
    "role:admin or (role:member and project_id:%(project_id)s)": frozenset({"member", "admin"}),
    "@": frozenset(ROLES),
}
#: What is refused to all: instances are made by compute services, which report them here; and
#: keystone's API is passed on for services on the same machine alone, where that is configured.
CLOSED = re.compile(r"(POST|PUT|DELETE) /compute/v2.1/servers|\w+ /identity/v3/<path")


def words_of(name: str) -> str:
    """Return the words of a rule, with those of its aliases."""
    by_name = {rule.name: rule.check_str for rule in RULES}
    words = by_name[name]
    while found := re.search(r"rule:([\w:.-]+)", words):
        words = words.replace(found[0], by_name[found[1]])
    return words


@dataclass(frozen=True)
class Asked:
    """A route at its path below the server."""

    path: str
    route: Route

    @property
    def of_a_project(self) -> bool:
        """Return whether the request names a project, which callers may ask about who are in it."""
        return self.route.policy == "placement:usages"

    def ask(self, app: TestApp, headers: Mapping[str, str]) -> int:
        """Return the status of the answer to this caller."""
        return app.do_request(self.request(app, headers), expect_errors=True).status_int

    def request(self, app: TestApp, headers: Mapping[str, str]) -> TestRequest:
        """Return a request of the least that the route takes."""
        path = PARAMETER.sub(UUIDS[0], self.path)
        if self.of_a_project:
            path += f"?project_id={PROJECT}"
        service = self.path.split("/")[1]
        version = "latest" if self.route.until == NEVER else self.route.until
        sent = {"OpenStack-API-Version": f"{service} {version}", **headers}
        request = app.RequestClass.blank(path, method=self.route.method, headers=sent)
        if self.route.takes_body:
            request.content_type = self.route.content_types[0]
            request.body = (
                b"{}" if self.route.action is None else b'{"%s": {}}' % (self.route.action.encode())
            )
        return request


def asked_of(app: TestApp) -> Iterator[Asked]:
    """Yield every route of every face."""
    for rule in app.app.url_map.iter_rules():
        route = getattr(rule, "route", None)
        if route is not None:
            yield Asked(rule.rule, route)


@dataclass
class Door:
    """An application, with what each kind of caller sends to it."""

    app: TestApp
    callers: Mapping[str, Mapping[str, str]]


@pytest.fixture
def noauth2(configured_app: Callable[[str], TestApp]) -> Door:
    callers: dict[str, Mapping[str, str]] = {
        name: {"X-Auth-Token": f"bob:{PROJECT}", "X-Roles": ",".join(roles) or "none"}
        for name, roles in ROLES.items()
    }
    elsewhere = {"X-Auth-Token": f"bob:{OTHER_PROJECT}", "X-Roles": "reader"}
    return Door(
        configured_app("[api]\nauth_strategy = noauth2\n"),
        {**callers, ELSEWHERE: elsewhere, "without token": {}},
    )


@pytest.fixture
def keystone(configured_app: Callable[[str], TestApp]) -> Iterator[Door]:
    with identity.running() as service:
        app = configured_app(config(service.url))
        tokens = {name: service.issue("bob", PROJECT, *roles) for name, roles in ROLES.items()}
        callers = {name: {"X-Auth-Token": token} for name, token in tokens.items()}
        expired = service.issue("bob", PROJECT, "admin", seconds=-60)
        forged = {"X-Roles": "admin", "X-Project-Id": PROJECT, "X-Identity-Status": "Confirmed"}
        yield Door(
            app,
            {
                **callers,
                ELSEWHERE: {"X-Auth-Token": service.issue("bob", OTHER_PROJECT, "reader")},
                "without token": {},
                "unknown token": {"X-Auth-Token": "stolen"},
                "expired token": {"X-Auth-Token": expired},
                "forged headers": forged,
                "forged roles": {"X-Auth-Token": tokens["no role"], **forged},
            },
        )


@pytest.mark.parametrize("strategy", ["noauth2", "keystone"])
def test_each_route_lets_in_whom_its_rule_names_and_no_other(strategy, request, record_property):
    door: Door = request.getfixturevalue(strategy)
    routes = list(asked_of(door.app))
    assert len(routes) > 100
    wrong = []
    for one in routes:
        public = one.route.public or one.route.policy is None
        allowed = frozenset(door.callers) if public else allowed_by(str(one.route.policy))
        for caller, headers in door.callers.items():
            status = one.ask(door.app, headers)
            # Who forges roles has those of the token.
            role = {"forged roles": "no role", ELSEWHERE: "reader"}.get(caller, caller)
            expected = "let in" if role in allowed else "forbidden" if role in ROLES else "refused"
            if caller == ELSEWHERE and one.of_a_project:
                expected = "forbidden"
            if CLOSED.match(f"{one.route.method} {one.path}") and expected == "let in":
                expected = "forbidden"
            got = {401: "refused", 403: "forbidden"}.get(status, "let in")
            if got != expected or status >= 500:
                wrong.append(f"{one.route.method} {one.path}, {caller}: {status}, not {expected}")
    assert not wrong, "\n".join(wrong)
    record_property(TRIED, f"{len(routes)} routes x {len(door.callers)} callers")


def allowed_by(rule: str) -> frozenset[str]:
    """Return who passes a rule."""
    words = words_of(rule)
    assert words in ALLOWED, f"{rule} is {words}: write down who passes it"
    return ALLOWED[words]
