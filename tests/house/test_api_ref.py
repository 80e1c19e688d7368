# SPDX-License-Identifier: Apache-2.0
"""The API reference documents exactly the routes that are served."""

import re
import subprocess
import sys
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from placement_sched.api.routing import Route
from placement_sched.api.versions import BEFORE_ALL_VERSIONS
from tests.house.served_routes import ROUTES_BY_API

pytestmark = pytest.mark.slow

API_REF = Path(__file__).parents[2] / "api-ref" / "source"

#: Addresses outside the route tables of the APIs. A test below requests them.
ROUTES_OUTSIDE_ROUTE_TABLES = {
    ("GET", "/"),
    ("GET", "/healthz"),
    ("GET", "/healthz/live"),
    ("GET", "/healthz/ready"),
    ("GET", "/metrics"),
}

MethodAndPath = tuple[str, str]


@dataclass(frozen=True)
class RouteSection:
    """A section of the reference about a method and a path."""

    page: str
    title: str
    address: MethodAndPath
    success: frozenset[int]
    errors: frozenset[int]


def _list_route_statuses(route: Route) -> frozenset[int]:
    """Return the statuses of a route without the statuses that every route has."""
    anywhere = {406, 503} if route.body is not None or route.query is not None else {400, 406, 503}
    return route.statuses - (anywhere - {*route.success, *route.errors})


def _group_routes_by_method_and_path() -> dict[MethodAndPath, list[Route]]:
    routes_by_address = defaultdict(list)
    for api, routes in ROUTES_BY_API.items():
        for route in routes:
            path = re.sub(r"<(?:path:)?(\w+)>", r"{\1}", f"/{api}{route.path}")
            # With a slash at its end, the address has the same section.
            routes_by_address[route.method, path.rstrip("/")].append(route)
    return routes_by_address


def _read_route_sections() -> list[RouteSection]:
    return [
        section
        for page in sorted(API_REF.rglob("*.rst"))
        for section in _parse_sections(str(page.relative_to(API_REF)), page.read_text())
    ]


def _parse_sections(page: str, text: str) -> list[RouteSection]:
    parts = re.split(r"^(.+)\n=+\n\n\.\. rest_method:: (\w+) (\S+)$", text, flags=re.MULTILINE)
    return [
        RouteSection(
            page,
            title,
            (method, path),
            _parse_status_codes(body, "success"),
            _parse_status_codes(body, "error"),
        )
        for title, method, path, body in zip(*(parts[i::4] for i in (1, 2, 3, 4)), strict=True)
    ]


def _parse_status_codes(body: str, kind: str) -> frozenset[int]:
    listed = re.findall(rf"rest_status_code:: {kind} \S+\n\n((?:   - .+\n?)+)", body)
    return frozenset(int(code) for block in listed for code in re.findall(r"- (\d{3})", block))


ROUTES_BY_METHOD_AND_PATH = _group_routes_by_method_and_path()
ROUTE_SECTIONS = _read_route_sections()
DOCUMENTED_ROUTES = {section.address for section in ROUTE_SECTIONS}


def _find_documented_statuses(address: MethodAndPath, kind: str) -> frozenset[int]:
    """Return the statuses of all sections of an address. Actions share an address."""
    statuses = (getattr(section, kind) for section in ROUTE_SECTIONS if section.address == address)
    return frozenset().union(*statuses)


def _find_all_documented_statuses(address: MethodAndPath) -> frozenset[int]:
    return _find_documented_statuses(address, "success") | _find_documented_statuses(
        address, "errors"
    )


def test_every_route_is_documented() -> None:
    assert set(ROUTES_BY_METHOD_AND_PATH) - DOCUMENTED_ROUTES == set()


def test_every_documented_route_is_served() -> None:
    assert DOCUMENTED_ROUTES - set(ROUTES_BY_METHOD_AND_PATH) - ROUTES_OUTSIDE_ROUTE_TABLES == set()


@pytest.mark.parametrize("path", sorted(path for _, path in ROUTES_OUTSIDE_ROUTE_TABLES))
def test_documented_addresses_without_a_route_table_are_served(sqlite_app, path: str) -> None:
    assert ("GET", path) in DOCUMENTED_ROUTES
    assert sqlite_app.get(path).status_int == 200


def test_every_action_of_a_route_has_a_section_of_its_own() -> None:
    actions = {
        (address, route.action)
        for address, routes in ROUTES_BY_METHOD_AND_PATH.items()
        for route in routes
        if route.action
    }
    assert actions
    assert {
        (address, action)
        for address, action in actions
        if not any(
            section.address == address and f"({action})" in section.title
            for section in ROUTE_SECTIONS
        )
    } == set()


def test_route_statuses_are_documented() -> None:
    missing = {
        address: undocumented
        for address, routes in ROUTES_BY_METHOD_AND_PATH.items()
        if (
            undocumented := frozenset().union(*map(_list_route_statuses, routes))
            - _find_all_documented_statuses(address)
        )
    }
    assert missing == {}


def test_placement_statuses_equal_the_openapi_document() -> None:
    different = {
        address: (sorted(_find_all_documented_statuses(address)), sorted(answered))
        for address, routes in ROUTES_BY_METHOD_AND_PATH.items()
        if "/placement" in address[1]
        and _find_all_documented_statuses(address)
        != (answered := {status for route in routes for status in route.statuses})
    }
    assert different == {}


def test_documented_success_statuses_are_statuses_of_the_route() -> None:
    promised = {
        address: {status for route in routes for status in route.success}
        for address, routes in ROUTES_BY_METHOD_AND_PATH.items()
    }
    assert {
        address: more
        for address, statuses in promised.items()
        if (more := _find_documented_statuses(address, "success") - statuses)
    } == {}


def test_first_version_of_a_route_is_documented() -> None:
    heading = re.compile(r"rest_method:: (\w+) (\S+)\n   min_version: (\S+)")
    documented = defaultdict(set)
    for page in API_REF.rglob("*.rst"):
        for method, path, version in heading.findall(page.read_text()):
            documented[method, path].add(version)
    different = {
        address: (documented[address], first)
        for address, routes in ROUTES_BY_METHOD_AND_PATH.items()
        if documented[address] != (first := _find_first_version(routes))
    }
    assert different == {}


def _find_first_version(routes: list[Route]) -> set[str]:
    """Return the first version of an address, or nothing if every version has it."""
    # Routes without a successful status only reject requests.
    versions = (
        route.since for route in routes if 2 in {s // 100 for s in route.success} or route.public
    )
    first = min(versions, default=BEFORE_ALL_VERSIONS)
    return set() if first == (0, 0) else {str(first)}


def test_every_noun_of_routes_has_a_page_in_the_api_reference() -> None:
    nouns = {
        f"{api}/{route.blueprint_name}.rst": route
        for api, routes in ROUTES_BY_API.items()
        for route in routes
    }
    assert {page for page in nouns if not (API_REF / page).exists()} == set()


def test_every_parameter_of_the_api_reference_is_used() -> None:
    defined = set(yaml.safe_load((API_REF / "parameters.yaml").read_text()))
    pages = "\n".join(page.read_text() for page in API_REF.rglob("*.rst"))
    used = set(re.findall(r"^   - \S+: (\w+)$", pages, flags=re.MULTILINE))
    assert defined - used == set()


def test_every_sample_of_the_api_reference_is_shown() -> None:
    samples = {str(path.relative_to(API_REF)) for path in (API_REF / "samples").rglob("*.json")}
    pages = "\n".join(page.read_text() for page in API_REF.rglob("*.rst"))
    shown = set(re.findall(r"literalinclude:: (?:\.\./)?(\S+)", pages))
    assert samples - shown == set()


@pytest.mark.system
def test_api_reference_builds_without_a_warning(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "sphinx", "-W", "-q", "-b", "html", API_REF, tmp_path]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stderr
