"""The hosts that an explanation is asked about, found by any of their names."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from uuid import UUID

from placement_sched.db.connection import Connection
from placement_sched.model.compute_node import ComputeNode
from placement_sched.model.nearest import nearest
from placement_sched.model.report import View
from placement_sched.store import compute_nodes, resource_providers

#: So many known names are given for one that is not known.
_MEANT = 3


@dataclass(frozen=True, slots=True)
class AskedHost:
    """One provider tree that a name means: its root's uuid, and how host and node are called.

    ``is_node`` is false for a provider tree without a compute node.
    """

    asked: str
    uuid: str
    host: str
    node: str
    is_node: bool = True


@dataclass(frozen=True, slots=True)
class AskedHosts:
    """What each name means, in the order asked; a host may have several nodes.

    ``unknown`` has the nearest known names of each name that means nothing.
    """

    known: tuple[AskedHost, ...] = ()
    unknown: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    names: tuple[str, ...] = ()

    def view(self, view: View) -> View:
        """Return a view of these nodes, by whichever name they were asked for."""
        return View(frozenset([*self.names, *(one.node for one in self.known)]), view.max_rejected)


def asked_hosts(connection: Connection, names: Iterable[str]) -> AskedHosts:
    """Return what these names mean: a host, a node's name, a provider's name, or a uuid of either.

    A child provider means the host of its tree.
    """
    wanted = tuple(dict.fromkeys(names))
    found: dict[str, list[AskedHost]] = {name: [] for name in wanted}
    uuids = {name: uuid for name in wanted if (uuid := _uuid(name))}
    nodes = {
        node.uuid: node
        for node in (
            *compute_nodes.named(connection, hosts=wanted, nodes=wanted),
            *compute_nodes.by_uuids(connection, uuids.values()),
        )
    }
    for name in wanted:
        found[name] += [
            _node(name, node)
            for node in nodes.values()
            if name in {node.host, node.hypervisor_hostname} or uuids.get(name) == node.uuid
        ]
    missing = [name for name in wanted if not found[name]]
    if missing:
        _add_providers(connection, missing, uuids, found)
    lost = [name for name in missing if not found[name]]
    known = _known_names(connection) if lost else ()
    return AskedHosts(
        known=tuple(one for name in wanted for one in sorted(found[name], key=_order)),
        unknown={name: nearest(name, known, _MEANT) for name in lost},
        names=wanted,
    )


def _uuid(name: str) -> str | None:
    try:
        return str(UUID(name))
    except ValueError:
        return None


def _order(one: AskedHost) -> tuple[str, str]:
    return one.host, one.node


def _node(name: str, node: ComputeNode) -> AskedHost:
    return AskedHost(name, node.uuid, node.host, node.hypervisor_hostname)


def _add_providers(
    connection: Connection,
    names: Iterable[str],
    uuids: Mapping[str, str],
    found: Mapping[str, list[AskedHost]],
) -> None:
    """Look for providers of these names, and for the compute nodes at the roots of their trees."""
    wanted = list(names)
    providers = {one.name: one for one in resource_providers.by_names(connection, wanted)}
    by_uuid = resource_providers.by_uuids(
        connection, [uuids[name] for name in wanted if name in uuids]
    )
    for name in wanted:
        if uuids.get(name) in by_uuid:
            providers[name] = by_uuid[uuids[name]]
    roots = {one.root_uuid for one in providers.values()}
    nodes = {node.uuid: node for node in compute_nodes.by_uuids(connection, roots)}
    called = resource_providers.names_of(connection, roots)
    for name in wanted:
        provider = providers.get(name)
        if provider is None:
            continue
        root = provider.root_uuid
        call = called.get(root, root)
        found[name].append(
            _node(name, nodes[root])
            if root in nodes
            else AskedHost(name, root, call, call, is_node=False)
        )


def _known_names(connection: Connection) -> set[str]:
    return {*compute_nodes.all_names(connection), *resource_providers.all_names(connection)}
