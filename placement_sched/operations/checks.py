# SPDX-License-Identifier: Apache-2.0
"""Checks of invariants, upgrade readiness and the cloud.

Invariants are checked in a single snapshot without locks. Checks before an upgrade have the results
and codes of oslo.upgradecheck. The checks of a cloud that is read from nova report problems in nova
and its compute hosts before requests fail. Such a cloud may have used another placement service
before, or no placement service for a while.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from itertools import groupby, islice
from operator import attrgetter
from pathlib import Path
from typing import NamedTuple

import orjson
from oslo_policy import opts as policy_options
from oslo_upgradecheck.upgradecheck import Code, Result

from placement_sched.config.settings import Settings
from placement_sched.db import migrate
from placement_sched.db.migrate import get_newest_revision, read_current_revision
from placement_sched.db.transaction import Connection, Database
from placement_sched.errors import Invalid, Unavailable
from placement_sched.limits import MAX_NAMED_INSTANCES, MAX_VIOLATIONS
from placement_sched.model.clock import Clock, utcnow
from placement_sched.model.compute_node import Service
from placement_sched.model.names import format_count
from placement_sched.model.provider import SHARES, compute_capacity
from placement_sched.operations.adopt import find_missing_standard_names
from placement_sched.operations.nova_cloud import compute_nova_data_age, is_read_from_nova
from placement_sched.operations.other_roots import find_owner
from placement_sched.store import checks, figures
from placement_sched.store.checks import Invariant, VerificationResult, Violation
from placement_sched.store.compute import cells, compute_nodes, host_aggregates, instances, services
from placement_sched.store.compute.hosts import map_trees
from placement_sched.store.placement import aggregates, resource_providers, traits

_PROVIDER = "provider {name} ({provider})"
_MESSAGES: Mapping[Invariant, str] = {
    Invariant.OVER_CAPACITY: "{used} {resource_class} of " + _PROVIDER + " are allocated, over its "
    "capacity of {capacity} ((total {total} - reserved {reserved}) * {allocation_ratio:g}): "
    "allocated at {written}, the inventory was written at {changed}{allowed}",
    Invariant.NO_INVENTORY: "consumer {consumer} holds {used} {resource_class} of "
    + _PROVIDER
    + ", which has no inventory of it",
    Invariant.NO_PROVIDER: "consumer {consumer} holds allocations of the provider number {number}, "
    "which does not exist",
    Invariant.NO_CONSUMER: "consumer {consumer} has allocations but no record",
    Invariant.ALLOCATED_TWICE: "consumer {consumer} has {times} allocations of {resource_class} of "
    + _PROVIDER
    + ", only one is allowed",
    Invariant.NO_ALLOCATIONS: "consumer {consumer} has a record but no allocations",
    Invariant.NO_PARENT: _PROVIDER + " has the provider number {number} as parent, which does not "
    "exist",
    Invariant.PARENT_LOOP: _PROVIDER + " has no root: its parents form a cycle",
    Invariant.WRONG_ROOT: _PROVIDER + " has the provider number {number} as root, but the root of "
    "its tree is number {real}",
    Invariant.PROVIDER_TWICE: "provider {provider} has {times} records, in different spellings",
    Invariant.ANOTHER_HOST: "instance {instance} is recorded on host {host} (node {node}), but "
    "has allocations on host {there}",
    Invariant.UNKNOWN_GROUP: "instance {instance} is in the server group {group}, which does not "
    "exist",
    Invariant.AFFINITY: "members of the affinity group {name} ({group}) are on {hosts} hosts",
    Invariant.ANTI_AFFINITY: "{members} members of the anti-affinity group {name} ({group}) are on "
    "host {host}, at most {most} allowed",
    Invariant.NOT_CLAIMED: "instance {instance} was placed on host {host} by decision {decision} "
    "but has no allocations",
    Invariant.NOT_RECORDED: "instance {instance} has the allocations of decision {decision} "
    "on host {host}, but is not recorded",
}
_ALLOWED = ": allowed, if the inventory was reduced below its allocations"
#: Tables whose row counts the result includes.
_CHECKED = ("providers", "inventories", "allocations", "consumers", "aggregates")


def verify_invariants(database: Database) -> VerificationResult:
    """Check all invariants in a snapshot, or raise Unavailable or Invalid."""
    violations = list[Violation]()
    with database.open_snapshot() as connection:
        counted = figures.count_rows(connection)
        try:
            for invariant, row in checks.iterate_violations(connection, MAX_VIOLATIONS + 1):
                violations.append(_describe_violation(invariant, row))
        except ValueError as wrong:
            raise Invalid(f"the database has a time that cannot be read: {wrong}") from None
    numbers = Counter(item.invariant for item in violations)
    order = list(Invariant)
    # Allowed violations come last, so that they do not displace the other violations.
    violations.sort(
        key=lambda item: (order.index(Invariant(item.invariant)), item.allowed, item.detail)
    )
    by_invariant = groupby(violations, key=attrgetter("invariant"))
    named = [violation for _, same in by_invariant for violation in islice(same, MAX_VIOLATIONS)]
    return VerificationResult(
        violations=tuple(item for item in named if not item.allowed),
        allowed=tuple(item for item in named if item.allowed),
        checked={name: getattr(counted, name) for name in _CHECKED},
        truncated=frozenset(
            invariant for invariant in order if numbers[invariant] > MAX_VIOLATIONS
        ),
    )


def _describe_violation(invariant: Invariant, row: Mapping[str, object]) -> Violation:
    if invariant is not Invariant.OVER_CAPACITY:
        return Violation(invariant, _MESSAGES[invariant].format(**row))
    total, reserved, ratio = (row[column] for column in ("total", "reserved", "allocation_ratio"))
    about = {
        **row,
        **{name: row[name] or "an unknown time" for name in ("changed", "written")},
        "used": int(row["used"]),  # type: ignore[call-overload]
        "capacity": compute_capacity(total, reserved, ratio),  # type: ignore[arg-type]
        "allowed": _ALLOWED if row["reduced"] else "",
    }
    return Violation(invariant, _MESSAGES[invariant].format(**about), bool(row["reduced"]))


#: The default file of oslo.policy, and its fallback.
_YAML_POLICY, _JSON_POLICY = "policy.yaml", "policy.json"
_NOT_CHECKED = "Not checked, because the schema is not up to date."
#: Minimum age, in seconds, at which records of nova's cells are outdated.
_MIN_OUTDATED_AGE = 60


def check_upgrade(
    database: Database, settings: Settings, clock: Clock = utcnow
) -> Mapping[str, Result]:
    """Map the names of checks to results, or raise :class:`Unavailable`."""
    schema = _check_schema(database)
    results = {"Database Schema": schema, **_check_rows(database, schema)}
    if is_read_from_nova(settings):
        results["Reading of Nova"] = _check_reading(database, schema, settings, clock)
    results["Policy File JSON to YAML Migration"] = _check_policy_file(settings)
    return results


def _check_schema(database: Database) -> Result:
    with database.read() as connection:
        contents = migrate.inspect_schema(connection)
    own, newest = read_current_revision(database), get_newest_revision()
    if contents.complete and own == newest:
        return Result(Code.SUCCESS)
    problem = (
        f"The schema is at revision {own or 'none'}, this release requires {newest}. "
        'Run the "placement-sched db sync" command.'
    )
    try:
        migrate.check_revision(own)
    except Unavailable as error:
        problem = f"{error.detail[0].upper()}{error.detail[1:]}."
    if contents.foreign or (contents.revisions and contents.tables and not contents.complete):
        problem = (
            "The database belongs to OpenStack placement and is not adopted. "
            'Run the "placement-sched db adopt" command.'
        )
    if contents.foreign and contents.has_unknown_revision:
        problem = (
            f"The database is at revision {', '.join(contents.revisions)}, which is not a "
            "revision of OpenStack placement. Name another database."
        )
    return Result(Code.FAILURE, problem)


def _check_rows(database: Database, schema: Result) -> Mapping[str, Result]:
    code_by_check = {
        "Missing Root Provider IDs": Code.FAILURE,
        "Incomplete Consumers": Code.WARNING,
        "Standard Traits and Resource Classes": Code.WARNING,
    }
    if schema.code is Code.FAILURE:
        return dict.fromkeys(code_by_check, Result(Code.FAILURE, _NOT_CHECKED))
    with database.read() as connection:
        counted = figures.count_rows(connection)
        missing = find_missing_standard_names(connection)
    roots, consumers = counted.without_root, counted.incomplete_consumers
    names = [*missing.resource_classes, *missing.traits]
    fix = 'Run the "placement-manage db online_data_migrations" command of OpenStack placement.'
    details = (
        roots
        and "Nothing is allocated from resource providers without a root provider id. There "
        f"{'is' if roots == 1 else 'are'} {roots}. {fix}",
        consumers
        and "The usage of projects lacks consumers that have allocations but no record. There "
        f"{'is' if consumers == 1 else 'are'} {consumers}. {fix}",
        names
        and f"The database lacks {format_count(len(names), 'standard name')} of traits and "
        f"resource classes, such as {names[0]}. The server adds them when it starts. "
        'Run "placement-sched db sync" to add them now.',
    )
    return {
        name: Result(code, str(text)) if text else Result(Code.SUCCESS)
        for (name, code), text in zip(code_by_check.items(), details, strict=True)
    }


def _check_reading(database: Database, schema: Result, settings: Settings, clock: Clock) -> Result:
    if schema.code is Code.FAILURE:
        return Result(Code.FAILURE, _NOT_CHECKED)
    with database.read() as connection:
        age = compute_nova_data_age(connection, clock())
    if age.seconds is None:
        problem = 'No cell of nova has been read yet. Run the "placement-sched nova adopt" command.'
    elif age.down_cells:
        problem = f"The databases of these cells are unavailable: {', '.join(age.down_cells)}."
    elif age.seconds > max(_MIN_OUTDATED_AGE, 3 * settings.scheduler.nova_sync_interval):
        problem = (
            f"A cell of nova was last read {age.seconds} seconds ago. Check that "
            'placement-sched nova-scheduler runs, or run the "placement-sched nova sync" command.'
        )
    else:
        return Result(Code.SUCCESS)
    return Result(Code.WARNING, problem)


def _check_policy_file(settings: Settings) -> Result:
    conf = settings.conf
    # oslo.policy registers its options only when it enforces a rule.
    for group, options in policy_options.list_opts():
        conf.register_opts(options, group)
    written = conf.oslo_policy.policy_file
    path = conf.find_file(written)
    if path is None and written == _YAML_POLICY:
        path = conf.find_file(_JSON_POLICY)
    if path is None:
        return Result(Code.SUCCESS)
    try:
        orjson.loads(Path(path).read_bytes())
    except ValueError:
        return Result(Code.SUCCESS)
    return Result(
        Code.FAILURE,
        f"The policy file {path} is written in JSON, which oslo.policy has deprecated. "
        'The "oslopolicy-convert-json-to-yaml" command converts it to YAML.',
    )


class CloudFault(Enum):
    """Kind of a finding, with the affected objects in the plural and the fix."""

    CELL_DISABLED = (
        "disabled cells, whose hosts get no new instances",
        "nova-manage cell_v2 update_cell --cell_uuid UUID --enable",
    )
    SERVICE_DOWN = (
        "hosts down, without a heartbeat for [DEFAULT] service_down_time",
        "start nova-compute on them, or check why it does not reach nova",
    )
    SERVICE_FORCED_DOWN = (
        "hosts forced down",
        "openstack compute service set --up HOST nova-compute",
    )
    SERVICE_DISABLED = (
        "disabled hosts",
        "openstack compute service set --enable HOST nova-compute",
    )
    NAME_OF_SEVERAL_NODES = (
        "names of several compute nodes, although placement has one provider per name",
        "give each host a unique name. If a host is gone: openstack compute service delete ID",
    )
    SERVICE_WITHOUT_NODE = (
        "hosts with a compute service but no compute node, so that nothing is placed there",
        "start nova-compute on them, or openstack compute service delete hosts that are gone",
    )
    NODE_WITHOUT_PROVIDER = (
        "compute nodes without a resource provider, so that nothing is placed there",
        "nova-compute creates it: check that it runs there and reaches this placement",
    )
    PROVIDER_OF_OTHER_UUID = (
        "compute nodes that share their name with a resource provider of another uuid",
        "once nothing is allocated: openstack resource provider delete UUID, restart nova-compute",
    )
    PROVIDER_OF_OTHER_NAME = (
        "resource providers that have another name than their compute node",
        "openstack resource provider set --name NODE UUID",
    )
    PROVIDER_WITHOUT_NODE = (
        "root providers without a compute node, so that nothing is placed there",
        "if their hosts are gone for good, also from Zun: openstack resource provider delete",
    )
    PROVIDER_IN_USE = (
        "root providers without a compute node but with allocations",
        "find the owners of the allocations: openstack resource provider show --allocations UUID",
    )
    PROVIDER_OF_OTHER_SERVICE = (
        "root providers that are no hosts of nova, by their resource classes",
        "leave them to the service that made them",
    )
    AGGREGATE_LACKS_HOSTS = (
        "host aggregates with hosts that their provider aggregates lack",
        "placement-sched placement sync_aggregates",
    )
    AGGREGATE_HAS_OTHER_HOSTS = (
        "provider aggregates with hosts that their host aggregates lack",
        "placement-sched placement sync_aggregates --remove-stale",
    )
    AGGREGATE_OF_NO_HOST = (
        "members of host aggregates without a compute service",
        "openstack aggregate remove host AGGREGATE HOST, unless you will add the host later",
    )
    INSTANCE_WITHOUT_ALLOCATIONS = (
        "instances without allocations, so that their capacity may be allocated again",
        "nova-manage placement heal_allocations",
    )

    @property
    def key(self) -> str:
        """Return the name of the kind in ``--format json``."""
        return self.name.lower()

    @property
    def subject(self) -> str:
        """Return the words for the affected objects, in the plural."""
        return self.value[0]

    @property
    def fix(self) -> str:
        """Return the command or action that fixes such findings."""
        return self.value[1]


@dataclass(frozen=True, slots=True)
class Mismatch:
    """The number of findings of a kind, and the names of the first objects."""

    kind: CloudFault
    number: int
    names: tuple[str, ...]


class _Node(NamedTuple):
    uuid: str
    host: str
    name: str

    @property
    def title(self) -> str:
        return self.name if self.name == self.host else f"{self.name} of {self.host}"


def check_cloud(
    connection: Connection, settings: Settings, clock: Clock, *, unread: Collection[str] | None = ()
) -> tuple[Mismatch, ...]:
    """Check the cloud, and return the findings of each kind in a fixed order.

    ``unread`` are the names and uuids of nova's compute nodes that could not be read. They are not
    reported as missing. If ``unread`` is None, which means unknown, no node is reported as missing.
    The number of SQL statements depends only on the number of cells.
    """
    names_of: dict[CloudFault, list[str]] = defaultdict(list)
    all_services = services.search(connection)
    compute_services = [service for service in all_services if service.is_compute]
    nodes = [
        _Node(uuid, host, name)
        for uuid, (host, name) in compute_nodes.map_names_by_uuid(connection).items()
    ]
    for kind, name in (
        *((CloudFault.CELL_DISABLED, c.title) for c in cells.list_cells(connection) if c.disabled),
        *_check_services(compute_services, clock(), settings.DEFAULT.service_down_time),
        *_check_hosts(connection, nodes, compute_services, unread),
        *_check_providers(connection, nodes, unread),
        *(
            (kind, f"{aggregate} ({hosts})")
            for kind, aggregate, hosts in compare_aggregates(connection)
        ),
    ):
        names_of[kind].append(name)
    mismatches = [
        Mismatch(kind, len(names), tuple(sorted(names))) for kind, names in names_of.items()
    ]
    mismatches += _check_instances(connection, settings)
    return tuple(sorted(mismatches, key=lambda item: list(CloudFault).index(item.kind)))


def _check_services(
    compute_services: Iterable[Service], now: datetime, down_time: int
) -> Iterator[tuple[CloudFault, str]]:
    for service in compute_services:
        if service.disabled:
            reason = f" ({service.disabled_reason})" if service.disabled_reason else ""
            yield CloudFault.SERVICE_DISABLED, f"{service.host}{reason}"
        if service.forced_down:
            yield CloudFault.SERVICE_FORCED_DOWN, service.host
        elif not service.is_up(now, down_time):
            yield CloudFault.SERVICE_DOWN, service.host


def _check_hosts(
    connection: Connection,
    nodes: Iterable[_Node],
    compute_services: Iterable[Service],
    unread: Collection[str] | None,
) -> Iterator[tuple[CloudFault, str]]:
    if unread is None:
        return
    hosts = {service.host for service in compute_services}
    hosts_with_node = {node.host for node in nodes} | set(unread)
    for host in hosts - hosts_with_node:
        yield CloudFault.SERVICE_WITHOUT_NODE, host
    for aggregate in host_aggregates.read_snapshot(connection):
        for host in aggregate.hosts - hosts_with_node - hosts:
            yield CloudFault.AGGREGATE_OF_NO_HOST, f"{host} of {aggregate.name}"


def _check_providers(
    connection: Connection, nodes: Iterable[_Node], unread: Collection[str] | None
) -> Iterator[tuple[CloudFault, str]]:
    providers = {item.uuid: item for item in resource_providers.list_providers(connection)}
    named = {item.name: item for item in providers.values()}
    by_name: dict[str, list[_Node]] = defaultdict(list)
    for node in nodes:
        by_name[node.name].append(node)
        provider, other = providers.get(node.uuid), named.get(node.name)
        if provider is not None and provider.name != node.name:
            names = f"{node.title} ({provider.uuid} is {provider.name})"
            yield CloudFault.PROVIDER_OF_OTHER_NAME, names
        elif provider is None and other is not None:
            yield CloudFault.PROVIDER_OF_OTHER_UUID, f"{node.title} ({other.uuid})"
        elif provider is None:
            yield CloudFault.NODE_WITHOUT_PROVIDER, node.title
    for name, several in by_name.items():
        if len(several) > 1:
            on = ", ".join(sorted(node.host for node in several))
            yield CloudFault.NAME_OF_SEVERAL_NODES, f"{name} (on {on})"
    if unread is None:
        return
    shared = traits.map_providers(connection, [SHARES]).get(SHARES, frozenset())
    excluded = {node.uuid for node in nodes} | shared
    roots = [
        provider
        for provider in providers.values()
        if provider.parent_uuid is None
        and provider.uuid not in excluded
        and {provider.uuid, provider.name}.isdisjoint(unread)
    ]
    trees = map_trees(connection, [root.id for root in roots])
    for root in roots:
        tree = trees.get(root.id, ())
        owner, is_used = find_owner(tree), any(provider.used for provider in tree)
        fault = CloudFault.PROVIDER_IN_USE if is_used else CloudFault.PROVIDER_WITHOUT_NODE
        fault = CloudFault.PROVIDER_OF_OTHER_SERVICE if owner else fault
        yield fault, f"{root.name} ({', '.join(filter(None, (root.uuid, owner)))})"


def compare_aggregates(connection: Connection) -> Iterator[tuple[CloudFault, str, str]]:
    """Yield kind of finding, name of the aggregate and its differing hosts."""
    hosts = host_aggregates.read_host_map(connection)
    members = aggregates.map_providers(connection, [item.uuid for item in hosts.aggregates])
    existing = resource_providers.map_by_uuid(connection, hosts.host_of)
    for differing in hosts.find_disagreements(members):
        for kind, uuids in (
            # A node without a provider is a finding of its own.
            (CloudFault.AGGREGATE_LACKS_HOSTS, differing.lacking & existing.keys()),
            (CloudFault.AGGREGATE_HAS_OTHER_HOSTS, differing.stale),
        ):
            if uuids:
                names = ", ".join(sorted({hosts.host_of[uuid] for uuid in uuids}))
                yield kind, differing.aggregate.name, names


def _check_instances(connection: Connection, settings: Settings) -> Iterator[Mismatch]:
    number, names = 0, list[str]()
    project_id, _ = settings.unknown_owner
    for cell in cells.list_cells(connection):
        conditions = {"incomplete_project_id": project_id, "cell_uuid": cell.uuid}
        number += instances.count_unallocated(connection, **conditions)
        remaining = MAX_NAMED_INSTANCES - len(names)
        if remaining:
            names += instances.list_unallocated(connection, **conditions, limit=remaining)
    if number:
        yield Mismatch(CloudFault.INSTANCE_WITHOUT_ALLOCATIONS, number, tuple(sorted(names)))
