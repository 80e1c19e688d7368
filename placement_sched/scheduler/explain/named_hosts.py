"""Hosts that a request names and that no cloud has: most often a name that was misspelt."""

from collections.abc import Iterator
from typing import NamedTuple

from placement_sched.db.transaction import Connection
from placement_sched.model.explanation import UnknownHost
from placement_sched.model.names import suggested
from placement_sched.model.request_spec import RequestSpec
from placement_sched.store.compute import compute_nodes

#: So many unknown names are reported one by one. Each is compared with all names of the cloud,
#: which takes milliseconds; one request may name thousands.
_MOST = 10


class _Named(NamedTuple):
    """A name in a list of the request spec; ``is_host`` is false for a node."""

    key: str
    position: int
    name: str
    is_host: bool


def unknown_hosts(connection: Connection, spec: RequestSpec) -> tuple[UnknownHost, ...]:
    """Return the hosts and nodes that the request forces or ignores and that are not there.

    Nothing is read where it names none. As in nova's filters, case does not count. Of more than
    ten, the last one returned says how many more there are.
    """
    named = list(_named(spec))
    if not named:
        return ()
    hosts = {one.name for one in named if one.is_host}
    nodes = {one.name for one in named if not one.is_host}
    found = compute_nodes.named(connection, hosts=hosts, nodes=nodes)
    here = {True: {one.host for one in found}, False: {one.hypervisor_hostname for one in found}}
    missing = [one for one in named if one.name not in here[one.is_host]]
    if not missing:
        return ()
    pairs = compute_nodes.names_by_uuid(connection).values()
    known = {True: {host for host, _ in pairs}, False: {node for _, node in pairs}}
    folded = {kind: {name.casefold() for name in names} for kind, names in known.items()}
    unknown = [one for one in missing if one.name.casefold() not in folded[one.is_host]]
    said = [
        UnknownHost(one.key, one.position, _said(one, known[one.is_host]))
        for one in unknown[:_MOST]
    ]
    if more := unknown[_MOST:]:
        detail = f"and {len(more)} more names that are not there, the first {more[0].name!r}"
        said.append(UnknownHost(more[0].key, more[0].position, detail))
    return tuple(said)


def _named(spec: RequestSpec) -> Iterator[_Named]:
    for key in ("force_hosts", "ignore_hosts", "force_nodes"):
        for position, name in enumerate(getattr(spec, key) or ()):
            yield _Named(key, position, name, is_host=key != "force_nodes")


def _said(one: _Named, known: set[str]) -> str:
    noun = "host" if one.is_host else "node"
    return f"there is no {noun} {one.name!r}{suggested(noun, one.name, known)}"
