# SPDX-License-Identifier: Apache-2.0
"""Explanations over HTTP, on hosts with traits and in aggregates."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs
from uuid import UUID

from placement_sched.operations import aggregates
from tests.support.clouds import NOW, Host, add_traits
from tests.support.scheduling import make_report


@dataclass(frozen=True)
class Explanation:
    """An explanation of ``POST /scheduler/v1/explain``."""

    result: Mapping[str, Any]

    @property
    def hosts(self) -> list[str]:
        """Return the hosts that passed, best first."""
        return [host["host"] for host in self.result["hosts"]]

    @property
    def request_filter_names(self) -> list[str]:
        """Return the names of the request filters in the order of their runs."""
        return [
            request_filter["name"] for request_filter in self.result["funnel"]["request_filters"]
        ]

    @property
    def query(self) -> dict[str, list[str]]:
        """Return the values of each parameter of the query."""
        return parse_qs(self.result["funnel"]["allocation_candidates"]["query"])

    def get_request_filter_report(self, name: str) -> dict[str, Any]:
        """Return the report of a request filter without its time."""
        (result,) = (
            request_filter
            for request_filter in self.result["funnel"]["request_filters"]
            if request_filter["name"] == name
        )
        assert result["elapsed_ms"] >= 0
        return {key: result[key] for key in result if key not in {"name", "elapsed_ms"}}


def explain_request(app, request_spec: dict[str, Any], **overrides: Any) -> Explanation:
    """Return the explanation of a request. Options ``group__option`` override settings."""
    values = {key.replace("__", "."): value for key, value in overrides.items()}
    body = {"request_spec": request_spec, "overrides": values}
    return Explanation(app.post_json("/scheduler/v1/explain", body).json)


def put_hosts(app, **traits: list[str]) -> None:
    """Report hosts whose root providers have these traits."""
    app.post_json("/scheduler/v1/compute_nodes", [make_report(name) for name in traits])
    hosts = [Host(name, {}, frozenset(entry)) for name, entry in traits.items()]
    add_traits(app.app.services.database, hosts)


def put_aggregate(app, number: int, metadata: dict[str, str], *hosts: str) -> str:
    """Add the host aggregate with this number as uuid, and return the uuid."""
    uuid = str(UUID(int=number))

    def write_rows(connection) -> None:
        result = aggregates.create(connection, uuid, f"agg{number}", None, NOW)
        aggregates.set_metadata(connection, result.id, metadata, NOW)
        aggregates.add_hosts(connection, result.id, hosts, NOW)

    app.app.services.database.write(write_rows)
    return uuid
