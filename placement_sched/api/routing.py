"""Which routes a path and a method lead to."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from werkzeug import exceptions
from werkzeug.routing import Map, MapAdapter, Rule

from placement_sched.api.errors import MethodNotAllowed
from placement_sched.api.route import Route
from placement_sched.errors import NotFound

#: What is said of a path that is not served.
NOT_FOUND = "The resource could not be found."


@dataclass(frozen=True, slots=True)
class Found:
    """What a path and a method lead to.

    ``template`` is the path of the routes there, "" where there are none; then ``refusal`` tells
    why. ``arguments`` are the variable parts of the path. An address that is ``open_to_all``
    needs no token, by another method no more than by its own.
    """

    template: str = ""
    routes: tuple[Route, ...] = ()
    arguments: Mapping[str, str] = field(default_factory=dict)
    refusal: NotFound | MethodNotAllowed | None = None
    open_to_all: bool = False


class RouteTable:
    """The routes of one face, found by path and method."""

    def __init__(self, routes: Iterable[Route]) -> None:
        there: dict[tuple[str, str], tuple[Route, ...]] = {}
        for route in routes:
            key = (route.path, route.method)
            there[key] = (*there.get(key, ()), route)
        self._methods = {
            path: [method for other, method in there if other == path] for path, _ in there
        }
        self._public = {
            path for (path, _), found in there.items() if all(route.public for route in found)
        }
        self._routes = {f"{method} {path}": found for (path, method), found in there.items()}
        self._addresses = _addresses(tuple(there))

    def find(self, path: str, method: str) -> Found:
        """Return the routes on a path by a method, or why there are none."""
        try:
            rule, arguments = self._addresses.match(path, method, return_rule=True)
        except exceptions.MethodNotAllowed as other:
            return self._not_by(method, path, other.valid_methods or ())
        except exceptions.NotFound:
            return Found(
                refusal=NotFound(NOT_FOUND),
                open_to_all=path in self._public,
            )
        routes = self._routes.get(f"{method} {rule.rule}")
        if routes is None:  # "get" is no GET (RFC 9110), which werkzeug takes it for
            return self._not_by(method, path, self._methods[rule.rule])
        return Found(rule.rule, routes, arguments, open_to_all=rule.rule in self._public)

    def _not_by(self, method: str, path: str, served: Iterable[str]) -> Found:
        allowed = tuple(sorted(served))
        told = f"The method {method} is not allowed for this resource. "
        return Found(
            refusal=MethodNotAllowed(f"{told}Allowed: {', '.join(allowed)}.", allowed),
            open_to_all=path in self._public,
        )


@lru_cache(maxsize=16)  # to make them takes most of the time that an application takes to start
def _addresses(there: tuple[tuple[str, str], ...]) -> MapAdapter:
    """Return what finds these paths and methods."""
    rules = [_rule(path, method) for path, method in there]
    # Rules end as they are written: nobody is sent from one address to another.
    return Map(rules, merge_slashes=False, redirect_defaults=False).bind("")


def _rule(path: str, method: str) -> Rule:
    rule = Rule(path, methods=[method], endpoint=f"{method} {path}")
    rule.methods = {method}  # without HEAD, which is served only where a route says so
    return rule
