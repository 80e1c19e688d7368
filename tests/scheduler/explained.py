# SPDX-License-Identifier: Apache-2.0
"""Requests explained over HTTP, on hosts with traits and in aggregates."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs
from uuid import UUID

from placement_sched.operations import aggregates
from tests.support.clouds import NOW, Host, give_traits
from tests.support.scheduling import report


@dataclass(frozen=True)
class Explained:
    """What ``POST /scheduler/v1/explain`` answered."""

    answer: Mapping[str, Any]

    @property
    def hosts(self) -> list[str]:
        """Return the hosts that passed, best first."""
        return [host["host"] for host in self.answer["hosts"]]

    @property
    def order(self) -> list[str]:
        """Return the names of the request filters, in the order in which they ran."""
        return [one["name"] for one in self.answer["funnel"]["request_filters"]]

    @property
    def query(self) -> dict[str, list[str]]:
        """Return the values of each parameter of the question."""
        return parse_qs(self.answer["funnel"]["allocation_candidates"]["query"])

    def told_by(self, name: str) -> dict[str, Any]:
        """Return what the funnel has of one request filter, but for how long it took."""
        (found,) = (one for one in self.answer["funnel"]["request_filters"] if one["name"] == name)
        assert found["elapsed_ms"] >= 0
        return {key: found[key] for key in found if key not in {"name", "elapsed_ms"}}


def explained(app, request_spec: dict[str, Any], **overrides: Any) -> Explained:
    """Return the explanation of a request, with ``group__option`` values laid over."""
    given = {key.replace("__", "."): value for key, value in overrides.items()}
    body = {"request_spec": request_spec, "overrides": given}
    return Explained(app.post_json("/scheduler/v1/explain", body).json)


def put_hosts(app, **traits: list[str]) -> None:
    """Make hosts of these names, with these traits on their root providers."""
    app.post_json("/scheduler/v1/compute_nodes", [report(name) for name in traits])
    hosts = [Host(name, {}, frozenset(each)) for name, each in traits.items()]
    give_traits(app.app.services.database, hosts)


def put_aggregate(app, number: int, metadata: dict[str, str], *hosts: str) -> str:
    """Make the host aggregate whose uuid is this number; return the uuid."""
    uuid = str(UUID(int=number))

    def make(connection) -> None:
        made = aggregates.create(connection, uuid, f"agg{number}", None, NOW)
        aggregates.set_metadata(connection, made.id, metadata, NOW)
        aggregates.add_hosts(connection, made.id, hosts, NOW)

    app.app.services.database.write(make)
    return uuid
