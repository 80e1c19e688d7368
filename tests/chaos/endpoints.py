# SPDX-License-Identifier: Apache-2.0
"""Endpoints of an application: routes of its APIs and pages of the console."""

from collections.abc import Iterator
from dataclasses import dataclass

from placement_sched.api.application import Application
from placement_sched.api.compute import microversions as compute
from placement_sched.api.placement import microversions as placement
from placement_sched.api.routing import AFTER_ALL_VERSIONS, Route
from placement_sched.api.versions import Version

#: The versions of the APIs that have several.
VERSIONED_APIS = {"placement": placement.VERSIONING, "compute": compute.VERSIONING}
#: Endpoints that reject every request, with the reason.
REJECTING_VIEWS = {
    "compute.servers.reject_action": "compute services create instances and report them here",
    "identity.versions.reject_request": "users and projects are keystone's",
    "image.images.reject_import": "no image data is stored here",
    "image.images.reject_members": "images are not shared with projects here",
    "scheduler.failover_capacity.show": "it is 404 before the first result in the background",
    "placement.inventories.reject_before_1_5": "the method came with 1.5, and is 405 before that",
    "console._reject_unknown_path": "it answers requests for pages that the console does not have",
}
#: Methods that Flask adds to its views.
_METHODS_ADDED_BY_FLASK = frozenset(("HEAD", "OPTIONS"))


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A method of a URL rule. Pages, health and metrics have no ``route``."""

    method: str
    rule: str
    view: str
    route: Route | None

    @property
    def name(self) -> str:
        """Method, rule and action, equal for all versions of a route."""
        action = self.route.action if self.route else None
        return " ".join(filter(None, (self.method, self.rule, action)))

    @property
    def api(self) -> str:
        """The first part of the path, which is also the service type of the version header."""
        return self.rule.split("/")[1]

    @property
    def newest_version(self) -> str:
        """The newest version that is served."""
        if self.route is None or self.route.until == AFTER_ALL_VERSIONS:
            return "latest"
        return str(self.route.until)

    @property
    def versions(self) -> list[str]:
        """The served versions, empty if the API has no versions."""
        if self.route is None or self.api not in VERSIONED_APIS:
            return []
        api = VERSIONED_APIS[self.api]
        first, last = max(api.oldest, self.route.since), min(api.newest, self.route.until)
        minors = range(first.minor, last.minor + 1)
        return [str(Version(first.major, minor)) for minor in minors]

    def __str__(self) -> str:
        window = "" if self.newest_version == "latest" else f" until {self.newest_version}"
        return f"{self.name}{window}"


def list_endpoints(application: Application) -> Iterator[Endpoint]:
    """Yield all endpoints of an application."""
    for rule in application.url_map.iter_rules():
        route: Route | None = getattr(rule, "route", None)
        methods = {route.method} if route else (rule.methods or set()) - _METHODS_ADDED_BY_FLASK
        for method in sorted(methods):
            yield Endpoint(method, rule.rule, rule.endpoint, route)
