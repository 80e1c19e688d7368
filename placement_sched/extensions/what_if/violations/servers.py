# SPDX-License-Identifier: Apache-2.0
"""Servers to check for violations, grouped by request."""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from placement_sched.db.transaction import Connection
from placement_sched.extensions.what_if.drain_plan import MovingInstance, find_instances
from placement_sched.extensions.what_if.violations.providers import Claim
from placement_sched.model.aggregates import ServerGroup
from placement_sched.model.document import Json
from placement_sched.model.grouping import group_rows, split_batches
from placement_sched.store.compute import instances, server_groups
from placement_sched.store.placement import allocations

#: Number of hosts whose servers are read at a time.
_BATCH = 500
_NO_NODE, _NO_CLAIM = "its host has no compute node", "it has no allocation on its host"
_NO_FLAVOR = "its flavor is not recorded"


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """A server with allocations on its host.

    ``root`` is the uuid of its compute node. ``own`` are its claims in the tree of the node, and
    ``shared`` its claims on other providers. ``unknown`` has the unknown facts of its request.
    """

    uuid: str
    name: str
    project_id: str | None
    flavor: str | None
    host: str
    root: str
    group: str | None
    unknown: tuple[str, ...]
    own: tuple[Claim, ...]
    shared: tuple[Claim, ...]


@dataclass(slots=True)
class Servers:
    """Servers by request, their requests, and the server groups.

    ``unknown`` counts unknown facts. ``unexamined`` maps reasons to servers without a result.
    """

    by_request: dict[bytes, list[Server]] = field(default_factory=lambda: defaultdict(list))
    documents: dict[bytes, Json] = field(default_factory=dict)
    unknown: Counter[str] = field(default_factory=Counter)
    unexamined: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    groups: Mapping[str, ServerGroup] = field(default_factory=dict)
    member_hosts: Mapping[str, str] = field(default_factory=dict)

    def get_group_without(self, server: Server) -> ServerGroup | None:
        """Return the server group without the server, or None without a group."""
        group = self.groups.get(server.group or "")
        if group is None:
            return None
        members = tuple([uuid for uuid in group.members if uuid != server.uuid])
        hosts = [self.member_hosts[uuid] for uuid in members if uuid in self.member_hosts]
        return replace(group, members=members, hosts=tuple(dict.fromkeys(hosts)))


def read_servers(
    connection: Connection,
    nodes: Mapping[str, tuple[str, str]],
    root_uuids: Mapping[str, str],
    hosts: Collection[str] | None,
) -> Servers:
    """Read the servers on hosts, or on all hosts.

    ``nodes`` maps the uuids of compute nodes to host and node, and ``root_uuids`` providers to the
    roots of their trees.
    """
    servers, by_host = Servers(), group_rows((host, uuid) for uuid, (host, _) in nodes.items())
    if hosts is None:
        hosts = {host for host, _ in instances.count_by_host(connection, None)}
    claims: dict[Claim, Claim] = {}  # equal claims of many servers are kept once
    groups = set()
    for batch in split_batches(sorted(hosts), _BATCH):
        for moving, own_claims in _iterate_instances(connection, batch):
            record = moving.record
            kept = [claims.setdefault(claim, claim) for claim in sorted(own_claims)]
            roots = by_host.get(record.host or "", ())
            root = next((r for claim in kept if (r := root_uuids.get(claim[0])) in roots), None)
            if reason := _find_obstacle(moving, roots, root):
                servers.unexamined[reason].append(record.uuid)
            elif root is not None:
                server = _build_server(moving, root, kept, root_uuids)
                key = moving.request_key
                servers.documents.setdefault(key, moving.document)
                servers.by_request[key].append(server)
                servers.unknown.update(moving.unknown)
                groups.update({record.server_group} - {None})
    servers.groups = server_groups.map_by_uuid(connection, sorted(filter(None, groups)))
    members = {uuid for group in servers.groups.values() for uuid in group.members}
    servers.member_hosts = instances.map_hosts(connection, members)
    return servers


def _iterate_instances(
    connection: Connection, hosts: Collection[str]
) -> Iterator[tuple[MovingInstance, Iterable[Claim]]]:
    moving = find_instances(connection, hosts)
    rows = allocations.list_by_consumers(connection, [each.record.uuid for each in moving])
    claims = group_rows(
        (row.consumer.uuid, (row.provider_uuid, row.resource_class, row.used)) for row in rows
    )
    for each in moving:
        yield each, claims.get(each.record.uuid, ())


def _find_obstacle(moving: MovingInstance, roots: Collection[str], root: str | None) -> str | None:
    if not roots:
        return _NO_NODE
    if root is None:
        return _NO_CLAIM
    return None if (moving.record.flavor or {}).keys() - {"id"} else _NO_FLAVOR


def _build_server(
    moving: MovingInstance, root: str, claims: Iterable[Claim], root_uuids: Mapping[str, str]
) -> Server:
    record, by_tree = (
        moving.record,
        group_rows((root_uuids.get(claim[0]) == root, claim) for claim in claims),
    )
    return Server(
        uuid=record.uuid,
        name=record.display_name,
        project_id=record.project_id,
        flavor=(record.flavor or {}).get("name"),
        host=record.host or "",
        root=root,
        group=record.server_group,
        unknown=moving.unknown,
        own=tuple(by_tree.get(True, ())),
        shared=tuple(by_tree.get(False, ())),
    )
