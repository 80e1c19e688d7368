"""What the names of hosts mean that an explanation is asked about: any name, or a uuid."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Self

from placement_sched.db.transaction import Connection
from placement_sched.model.compute_node import ComputeNode
from placement_sched.model.names import read_uuid
from placement_sched.store.compute import compute_nodes
from placement_sched.store.placement import resource_providers


@dataclass(frozen=True, slots=True)
class AskedHost:
    """One provider tree that a name means: its root's uuid, and how host and node are called.

    ``is_node`` is false for a provider tree without a compute node.
    """

    uuid: str
    host: str
    node: str
    is_node: bool = True

    @classmethod
    def of(cls, node: ComputeNode) -> Self:
        """Return a compute node."""
        return cls(node.uuid, node.host, node.hypervisor_hostname)


#: What each name means, in the order asked; a host may have several nodes, and a name no meaning.
AskedHosts = Mapping[str, Sequence[AskedHost]]


def asked_hosts(connection: Connection, names: Iterable[str]) -> AskedHosts:
    """Return what these names mean: a host, a node's name, a provider's name, or a uuid of either.

    A child provider means the host of its tree.
    """
    wanted = tuple(dict.fromkeys(names))
    uuids = {name: uuid for name in wanted if (uuid := read_uuid(name))}
    named = compute_nodes.named(connection, hosts=wanted, nodes=wanted)
    nodes = {
        node.uuid: node for node in (*named, *compute_nodes.by_uuids(connection, uuids.values()))
    }
    # By every name: one question may have thousands of names, and a cloud as many nodes.
    meaning = defaultdict[str, dict[str, AskedHost]](dict)
    for node in nodes.values():
        for called in (node.host, node.hypervisor_hostname, node.uuid):
            meaning[called][node.uuid] = AskedHost.of(node)
    found: dict[str, list[AskedHost]] = {}
    for name in wanted:
        meant = meaning.get(name, {}) | meaning.get(uuids.get(name, name), {})
        found[name] = sorted(meant.values(), key=lambda one: (one.host, one.node))
    if missing := [name for name in wanted if not found[name]]:
        found |= _by_provider(connection, missing, uuids)
    return found


def _by_provider(
    connection: Connection, names: Sequence[str], uuids: Mapping[str, str]
) -> dict[str, list[AskedHost]]:
    """Return what names of providers mean: the compute nodes at the roots of their trees."""
    providers = {one.name: one for one in resource_providers.by_names(connection, names)}
    given = [uuids[name] for name in names if name in uuids]
    by_uuid = resource_providers.by_uuids(connection, given)
    providers |= {name: by_uuid[uuids[name]] for name in names if uuids.get(name) in by_uuid}
    roots = {one.root_uuid for one in providers.values()}
    called = resource_providers.names_of(connection, roots)
    trees = {}
    for root in roots:
        name = called.get(root, root)
        trees[root] = AskedHost(root, name, name, is_node=False)
    for node in compute_nodes.by_uuids(connection, roots):
        trees[node.uuid] = AskedHost.of(node)
    return {name: [trees[providers[name].root_uuid]] for name in names if name in providers}
