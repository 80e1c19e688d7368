# SPDX-License-Identifier: Apache-2.0
"""Search page for hosts, servers, flavors, requests and other names."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, quote_plus, urlencode

import flask
from flask import request

from placement_sched.console.client import ApiClient, ApiError
from placement_sched.console.page import get_api_client, redirect, render_page
from placement_sched.limits import MAX_SEARCH_HITS
from placement_sched.model.names import read_uuid

#: Objects with a name: kind, path and key of the list, keys of the name and of an id, and address.
_NAMED = (
    ("Flavor", "/compute/v2.1/flavors/detail", "flavors", "name", "id", "/ask?flavor"),
    ("Aggregate", "/compute/v2.1/os-aggregates", "aggregates", "name", "uuid", "/cloud?aggregate"),
    (
        *("Zone", "/compute/v2.1/os-availability-zone", "availabilityZoneInfo"),
        *("zoneName", "", "/cloud?zone"),
    ),
    ("Policy", "/scheduler/v1/policies", "policies", "name", "", "/policies?policy"),
)
_HOST_ATTRIBUTE = "OS-EXT-SRV-ATTR:host"


@dataclass(frozen=True, slots=True)
class Hit:
    """A match of a search: kind, name, path and query below ``/console``, and a detail."""

    kind: str
    name: str
    address: str
    detail: str = ""
    #: Another text, such as a uuid, that is an exact match.
    alias: str = ""


def index() -> flask.Response:
    """Redirect to the only exact match, or list all matches."""
    text = request.args.get("q", "").strip()
    hits = _search(get_api_client(), text)
    exact = [hit for hit in hits if text.lower() in {hit.name.lower(), hit.alias.lower()}]
    if len(exact) == 1 or len(hits) == 1:
        return redirect(f"/console{(exact or hits)[0].address}")
    values = {"hits": hits, "text": text, "found_text": text, "limit": MAX_SEARCH_HITS}
    return render_page("search.html", "Search", values)


def _search(client: ApiClient, text: str) -> list[Hit]:
    """Search for matches of all kinds that this person may read.

    Raises :class:`ApiError` for callers who may not list hosts.
    """
    hits = list(_search_hosts(client, text))
    if not text:
        return []
    hits += _list_hits(_search_servers, client, text)
    hits += _search_named(client, text)
    return hits + _list_hits(_search_decisions, client, text)


def _list_hits(
    search: Callable[[ApiClient, str], Iterator[Hit]], client: ApiClient, text: str
) -> list[Hit]:
    """List the matches of a kind until the API rejects a request.

    The person may not list this kind, or the text is malformed for it.
    """
    hits = []
    with suppress(ApiError):
        for hit in search(client, text):
            hits.append(hit)  # noqa: PERF402 - keeps the hits before the rejected request
    return hits


def _search_hosts(client: ApiClient, text: str) -> Iterator[Hit]:
    query = {"search": text, "limit": MAX_SEARCH_HITS} if text else {"limit": 1}
    document = client.get("/scheduler/v1/hosts", query)
    for host in document["hosts"]:
        node = host["node"] if host["node"] != host["host"] else ""
        detail = ", ".join(filter(None, (node, f"zone {host['zone']}", host["state"])))
        yield Hit("Host", host["host"], f"/hosts/{quote(host['host'], safe='')}", detail, node)


def _search_servers(client: ApiClient, text: str) -> Iterator[Hit]:
    uuid = read_uuid(text)
    filters = {"name": text} if uuid is None else {"uuid": uuid}
    query = {"all_tenants": "1", "limit": MAX_SEARCH_HITS, **filters}
    for server in client.get("/compute/v2.1/servers/detail", query)["servers"]:
        host = server.get(_HOST_ATTRIBUTE)
        detail = f"{server['id']}{f', on {host}' if host else ''}"
        address = f"/decisions?{urlencode({'instance': server['id']})}"
        yield Hit("Server", server["name"], address, detail, server["id"])


def _search_named(client: ApiClient, text: str) -> Iterator[Hit]:
    for kind, path, key, name, alias, address in _NAMED:
        for item in client.list_visible(path, key):
            identifier = item[alias] if alias else ""
            if text.lower() in item[name].lower() or text.lower() == identifier.lower():
                detail = f"{len(item['hosts']):,} hosts" if kind == "Aggregate" else identifier
                named = f"{address}={quote_plus(item[name])}"
                yield Hit(kind, item[name], named, detail, identifier)


def _search_decisions(client: ApiClient, text: str) -> Iterator[Hit]:
    """Yield the decisions with a text as request id, instance or uuid."""
    uuid = read_uuid(text)
    if uuid is not None:
        # A server that is recorded is a hit of its own, with the same address.
        for name in ("instance", "request_id"):
            yield from _list_decisions(client, name, uuid)
        decision = client.get(f"/scheduler/v1/decisions/{uuid}")
        yield Hit("Decision", uuid, f"/decisions/{uuid}", decision["outcome"])
    elif text.startswith("req-"):
        yield from _list_decisions(client, "request_id", text)


def _list_decisions(client: ApiClient, name: str, text: str) -> Iterator[Hit]:
    decisions = client.get("/scheduler/v1/decisions", {name: text, "limit": 2})["decisions"]
    words = "Decisions of instance" if name == "instance" else "Decisions of request"
    if len(decisions) == 1:
        yield Hit(words, text, f"/decisions/{decisions[0]['uuid']}", decisions[0]["outcome"])
    elif decisions:
        yield Hit(words, text, f"/decisions?{urlencode({name: text})}")


VIEWS: Mapping[str, Callable[..., Any]] = {"/search": index}
