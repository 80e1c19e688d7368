"""Paths and methods: what they lead to, and what is told where they lead nowhere."""

import pytest

from placement_sched.api.call import Answer
from placement_sched.api.errors import MethodNotAllowed
from placement_sched.api.microversion import Version
from placement_sched.api.route import Route
from placement_sched.api.routing import RouteTable
from placement_sched.errors import NotFound


def route(method, path, **options):
    return Route(method=method, path=path, handler=lambda _call: Answer(), **options)


FIRST = route("GET", "/things", until=Version(1, 5), public=True)
SECOND = route("GET", "/things", since=Version(1, 6))
ONE = route("GET", "/things/<uuid>", public=True)
ADD = route("PUT", "/things/<uuid>", public=True)
LOOK = route("HEAD", "/files/<path:below>")
TABLE = RouteTable([FIRST, SECOND, ONE, ADD, LOOK])


def test_routes_of_all_versions_are_found_together():
    found = TABLE.find("/things", "GET")
    assert found.routes == (FIRST, SECOND)
    assert found.template == "/things"
    assert found.refusal is None


def test_variable_parts_are_told():
    found = TABLE.find("/things/a b", "PUT")
    assert (found.routes, dict(found.arguments)) == ((ADD,), {"uuid": "a b"})
    below = TABLE.find("/files/a/b", "HEAD")
    assert dict(below.arguments) == {"below": "a/b"}


@pytest.mark.parametrize("path", ["/", "/things/", "/things/a/b", "/things//a", "/thing"])
def test_other_paths_are_not_found(path):
    found = TABLE.find(path, "GET")
    assert isinstance(found.refusal, NotFound)
    assert (found.template, found.routes) == ("", ())


@pytest.mark.parametrize("method", ["HEAD", "DELETE", "OPTIONS", "BREW", "get"])
def test_other_methods_are_refused_with_those_that_are_served(method):
    refusal = TABLE.find("/things/a", method).refusal
    assert isinstance(refusal, MethodNotAllowed)
    assert refusal.allowed == ("GET", "PUT")
    assert refusal.detail == (
        f"The method {method} is not allowed for this resource. Allowed: GET, PUT."
    )


def test_an_address_is_open_only_where_all_its_routes_are():
    assert TABLE.find("/things/a", "GET").open_to_all
    assert not TABLE.find("/things", "GET").open_to_all
    assert not TABLE.find("/nowhere", "GET").open_to_all
