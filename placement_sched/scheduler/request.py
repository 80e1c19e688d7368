# SPDX-License-Identifier: Apache-2.0
"""Reading of requests: stored names, scheduling policy and defaults.

As nova's API does before scheduling, a missing NUMA topology and missing PCI requests are derived
from flavor and image. With ``[filter_scheduler] pci_in_placement``, each PCI device becomes a
request group.
"""

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any
from uuid import uuid4

import orjson

from placement_sched.clients.neutron import Neutron
from placement_sched.clients.session import create_adapter
from placement_sched.config.settings import Settings
from placement_sched.config.sources import OF_REQUEST
from placement_sched.db.transaction import Connection, ReadableDatabase
from placement_sched.errors import ConfigurationError, Invalid, NotFound, TooComplex
from placement_sched.limits import MAX_ALTERNATES, MAX_RECORDED_BYTES
from placement_sched.model.aggregates import ServerGroup
from placement_sched.model.clock import Clock
from placement_sched.model.decision import compute_digest
from placement_sched.model.document import Document, Json
from placement_sched.model.hardware.pci_requests import (
    InstancePCIRequest,
    InstancePCIRequests,
    build_placement_terms,
)
from placement_sched.model.names import canonicalize_uuid, suggest_name
from placement_sched.model.preferences import find_spread_request
from placement_sched.model.request_spec import (
    REBUILD_HINT,
    NetworkRequest,
    RequestedGroup,
    RequestSpec,
    parse_request_spec,
)
from placement_sched.scheduler.caches import AggregateCache, Aggregates
from placement_sched.scheduler.filtering import is_named
from placement_sched.scheduler.live_settings import LiveSettings, with_overrides
from placement_sched.scheduler.plugins import Plugins, get_plugins, get_policy_enforcer
from placement_sched.scheduler.policies import registry
from placement_sched.schemas import formats
from placement_sched.store import images
from placement_sched.store.compute import flavors, instances, server_groups
from placement_sched.store.placement import allocations

LOG = logging.getLogger(__name__)

#: JSON path of the only request of a call. Errors about requests name paths below it.
REQUEST_PATH = "$.request_spec"
_NETWORKS_PATH = "$.request_spec.requested_networks"

_BUILDING = "building"
#: The filter that enforces a hard spread over failure domains.
SPREAD_FILTER = "TopologySpreadFilter"
_GROUP_PATH = "$.request_spec.instance_group"
_HINT_PATH = "$.request_spec.scheduler_hints.group"


def create_neutron_client(settings: Settings) -> Neutron | None:
    """Create a client of neutron from ``[neutron]``, or None without options.

    Raises :class:`~placement_sched.errors.ConfigurationError` if the options are inconsistent.
    """
    options = settings.neutron
    adapter = create_adapter(settings.conf, "neutron", retries=options.http_retries)
    if adapter is None:
        return None
    return Neutron(adapter, cache_seconds=options.extension_sync_interval)


def with_network_data(
    spec: RequestSpec, neutron: Neutron | None, settings: Settings
) -> RequestSpec:
    """Add the network data that enabled request filters need to a request.

    Each port, subnet or network with missing data is read once. Raises :class:`Invalid` if a port
    or subnet does not exist, and the errors of ``neutron``.
    """
    if neutron is None or spec.is_rebuild or not spec.requested_networks:
        return spec
    is_routed = bool(settings.scheduler.query_placement_for_routed_network_aggregates)
    find_port = cache(neutron.find_port)
    find_segments_of_subnet = cache(neutron.find_subnet_segments)
    find_segments_of_network = cache(neutron.list_network_segments)

    def complete(network: NetworkRequest, json_path: str) -> NetworkRequest:
        lacks_segments = is_routed and network.segments is None
        lacks_subnet = network.subnet_ids is None or network.network_id is None
        needs_network = lacks_segments and not network.subnet_id and lacks_subnet
        if network.port_id and (network.vnic_type is None or needs_network):
            port = find_port(network.port_id)
            if port is None:
                raise Invalid(
                    f"neutron has no port {network.port_id}", json_path=f"{json_path}.port_id"
                )
            network = network.with_port(port)
        if not lacks_segments or network.is_open:
            return network
        if network.subnet_id is None:
            network_id = network.named_network
            return network.with_segments(find_segments_of_network(network_id) if network_id else ())
        segments = find_segments_of_subnet(network.subnet_id)
        if segments is None:
            raise Invalid(f"neutron has no subnet {network.subnet_id}", json_path=json_path)
        return network.with_segments(segments)

    networks = tuple(
        complete(network, f"{_NETWORKS_PATH}[{position}]")
        for position, network in enumerate(spec.requested_networks)
    )
    return replace(spec, requested_networks=networks)


def check_rebuild(database: ReadableDatabase, spec: RequestSpec) -> None:
    """Raise :class:`Invalid` if an instance to rebuild is not on the host."""
    if not spec.is_rebuild:
        return
    with database.read() as connection:
        recorded = instances.list_by_uuids(connection, spec.instance_uuids)
        present = {row.uuid for row in recorded if is_named(spec, row.host or "", row.node or "")}
        # An instance that is still being built is on the host only if it has allocations.
        claimed = {record.uuid for record in recorded if record.vm_state == _BUILDING}
        claims = allocations.list_by_consumers(connection, claimed) if claimed else ()
        present -= claimed - {claim.consumer.uuid for claim in claims}
    for uuid in spec.instance_uuids or ("without a uuid",):
        if uuid not in present:
            raise Invalid(
                f"the hint {REBUILD_HINT}=rebuild requires an instance on the host that the "
                f"request names, but instance {uuid} is not on it",
                json_path=f"$.request_spec.scheduler_hints.{REBUILD_HINT}",
            )


def drop_invalid_rebuild(database: ReadableDatabase, document: Document) -> Json:
    """Return nova's request without an invalid rebuild hint, which is logged."""
    hints = document.get("scheduler_hints") or {}
    if REBUILD_HINT not in hints:
        return dict(document)
    try:
        check_rebuild(database, parse_request_spec(document))
    except Invalid as error:
        LOG.warning("%s (the hint is ignored)", error.detail)
        hints = {name: value for name, value in hints.items() if name != REBUILD_HINT}
    return {**document, "scheduler_hints": hints}


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulingRequest:
    """A request: spec, policy, and the policy's settings and plugins.

    ``spec`` has stored objects in place of their names. ``digest`` identifies equal requests.
    ``names_group`` is true for a stored server group, whose members can change, and false for a
    group object in the request. ``chosen`` is the policy of the request. ``aggregates`` are the
    host aggregates, if they were read. The caller may set ``overrides`` and a ``named_policy``, for
    an explanation. ``is_joint`` is true if the call has other requests.
    """

    spec: RequestSpec
    settings: Settings
    plugins: Plugins
    digest: str = ""
    names_group: bool = False
    chosen: registry.ChosenPolicy | None = None
    policies: registry.Policies | None = None
    aggregates: Aggregates | None = None
    alternates: int = 0
    overrides: Mapping[str, Any] = field(default_factory=dict)
    named_policy: str | None = None
    is_joint: bool = False

    @property
    def joined_group(self) -> str | None:
        """Return the uuid of the stored group that the instances join, or None.

        Instances do not join a group object in the request, whose policy the caller must enforce.
        """
        group = self.spec.instance_group
        return group.uuid if group is not None and self.names_group else None


@dataclass(frozen=True, slots=True)
class RequestReader:
    """Reader of requests under the current settings."""

    database: ReadableDatabase
    live: LiveSettings
    clock: Clock
    aggregates: AggregateCache
    neutron: Neutron | None = None

    def read(
        self,
        document: Document,
        *,
        alternates: bool = False,
        policy: str | None = None,
        overrides: Mapping[str, Any] | None = None,
    ) -> SchedulingRequest:
        """Read a request from a document.

        ``alternates`` are up to ``[scheduler] max_attempts`` - 1 hosts per instance. ``policy``
        names the policy. Raises :class:`Invalid`, and :class:`NotFound` if a named flavor or image
        is not stored.
        """
        named = any(isinstance(document.get(key), str) for key in ("flavor", "image"))
        if named or _has_stored_group(document):
            with self.database.read() as connection:
                original = parse_request_spec(_look_up_names(connection, document))
        else:
            original = parse_request_spec(document)
        if not original.instance_uuids:
            uuids = tuple(str(uuid4()) for _ in range(original.num_instances))
            original = replace(original, instance_uuids=uuids)
        check_rebuild(self.database, original)
        running = self.live.get_settings()
        settings = self._apply_overrides(running, overrides)
        spec = derive_defaults(original, settings)
        policies = registry.get_policies(running, self.clock)
        chosen, aggregates = self._choose(spec, policies, policy)
        policy_settings = self._apply_overrides(chosen.policy.settings, overrides)
        if policy_settings is not settings:
            settings = policy_settings
            spec = derive_defaults(original, settings)
        plugins = get_plugins(settings, self.clock)
        return SchedulingRequest(
            spec=chosen.confine(spec),
            settings=settings,
            plugins=plugins.select_for_rebuild() if spec.is_rebuild else plugins,
            digest=compute_request_digest(spec.instance_uuids, document),
            names_group=_has_stored_group(document),
            chosen=chosen,
            policies=policies,
            aggregates=aggregates,
            alternates=settings.scheduler.max_attempts - 1 if alternates else 0,
            overrides=overrides or {},
            named_policy=policy,
        )

    @staticmethod
    def read_instances(document: Document) -> RequestSpec:
        """Return a spec with only the instance uuids and hints of a document."""
        keys = ("instance_uuids", "scheduler_hints")
        return parse_request_spec({key: document[key] for key in keys if key in document})

    def validate(self, request: SchedulingRequest) -> SchedulingRequest:
        """Validate a request, and return it with the network data of neutron.

        Raises :class:`Invalid` if no enabled plugin enforces the server group policy or the spread,
        if a port or subnet does not exist, if there would be too many alternates, or if flavor and
        image are too large to record with each instance. Raises :class:`ServiceFailed` if neutron
        does not answer. The group of a rebuild is ignored, because the instance keeps its host.
        """
        spec, group = request.spec, request.spec.instance_group
        check_document_sizes([request])
        instances, alternates = len(spec.instance_uuids), request.alternates
        if instances * alternates > MAX_ALTERNATES:
            raise Invalid(
                f"[scheduler] max_attempts requires {alternates} alternates for each of {instances}"
                f" instances, more than {MAX_ALTERNATES} in total",
                json_path="$.request_spec.num_instances",
            )
        if group is not None and not spec.is_rebuild:
            if not request.plugins.enforces(group.policy):
                raise Invalid(
                    f"The server group's policy {group.policy} is not supported: "
                    f"{get_policy_enforcer(group.policy)} is not enabled",
                    json_path="$.request_spec.instance_group",
                )
            spread = find_spread_request(spec.flavor.extra_specs, spec.scheduler_hints)
            if spread and spread.is_hard and not request.plugins.has_filter(SPREAD_FILTER):
                raise Invalid(
                    f"The members of the server group cannot be spread over {spread.key!r}: "
                    f"{SPREAD_FILTER} is not enabled, add it to [filter_scheduler] enabled_filters",
                    json_path=spread.path,
                )
        return replace(request, spec=with_network_data(spec, self.neutron, request.settings))

    def read_again(self, request: SchedulingRequest) -> SchedulingRequest:
        """Return the request with the current members of its server group."""
        request = replace(request, aggregates=None)
        if (uuid := request.joined_group) is None:
            return request
        with self.database.read() as connection:
            stored = _get_group(connection, uuid)
            instance_uuids = request.spec.instance_uuids
            group = server_groups.with_members(connection, stored, without=instance_uuids)
        return replace(request, spec=request.spec.with_group(group))

    def check_overrides(self, overrides: Mapping[str, Any]) -> None:
        """Raise :class:`Invalid` for overrides that requests may not have."""
        self._apply_overrides(self.live.get_settings(), overrides)

    def _apply_overrides(self, settings: Settings, overrides: Mapping[str, Any] | None) -> Settings:
        if not overrides:
            return settings
        settings = with_overrides(settings, overrides)
        try:
            get_plugins(settings, self.clock)
        except ConfigurationError as error:
            raise Invalid(error.detail, source=OF_REQUEST, json_path=f"$.{OF_REQUEST}") from None
        return settings

    def _choose(
        self, spec: RequestSpec, policies: registry.Policies, named: str | None
    ) -> tuple[registry.ChosenPolicy, Aggregates | None]:
        """Return the policy of a request, and aggregates if they were read."""
        if not policies.can_exist and named is None:
            return registry.ChosenPolicy(policies.default), None
        with self.database.read() as connection:
            aggregates = self.aggregates.get_current(connection)
        policy_aggregates = aggregates.policy_aggregates
        if named is None:
            selectors = get_plugins(policies.default.settings, self.clock).selectors
            return registry.choose(spec, policies, selectors, policy_aggregates), aggregates
        try:
            return registry.choose_named(named, policies, policy_aggregates), aggregates
        except ConfigurationError as error:
            raise Invalid(error.detail, source="policy", json_path="$.policy") from None


def derive_defaults(spec: RequestSpec, settings: Settings) -> RequestSpec:
    """Derive a missing NUMA topology and PCI requests, and PCI request groups.

    They are derived from flavor and image, unless the request has the key, even with null. Raises
    :class:`Invalid`, naming the keys, if flavor and image are invalid or contradict each other, and
    :class:`TooComplex` for too many groups.
    """
    document = spec.as_document()
    if "numa_topology" not in document:
        spec = replace(spec, numa_topology=spec.hardware.numa_topology)
    is_derived = "pci_requests" not in document
    if is_derived:
        requests = spec.hardware.build_pci_requests(registry.read_pci_aliases(settings))
        spec = replace(spec, pci_requests=InstancePCIRequests(requests=requests))
    if not settings.filter_scheduler.pci_in_placement or spec.pci_requests is None:
        return spec
    pci_requests = spec.pci_requests.requests
    count, limit = sum(item.count for item in pci_requests), settings.placement.max_request_groups
    if count > limit:
        raise TooComplex(
            f"{count} PCI devices, each a request group, exceed "
            f"[placement] max_request_groups ({limit})."
        )
    groups: list[RequestedGroup] = []
    # nova's API has already added these groups if pci_in_placement is also set there.
    requesters = {group.requester_id for group in spec.requested_resources}
    for position, item in enumerate(pci_requests):
        source = f"$.request_spec.pci_requests.requests[{position}]"
        if is_derived:
            source = f"flavor extra spec 'pci_passthrough:alias', [pci] alias {item.alias_name!r}"
        device_groups = _build_device_groups(item, source)
        groups += [group for group in device_groups if group.requester_id not in requesters]
    return replace(spec, requested_resources=(*spec.requested_resources, *groups))


def check_document_sizes(requests: Sequence[SchedulingRequest]) -> None:
    """Reject requests whose flavors and images are too large to record.

    Flavor and image count once per instance. Raises :class:`Invalid`, naming the first request that
    makes the sum exceed :data:`MAX_RECORDED_BYTES`.
    """
    total = 0
    for request in requests:
        instances = len(request.spec.instance_uuids)
        recorded = {name: request.spec.as_document().get(name) for name in ("flavor", "image")}
        sizes = {name: len(orjson.dumps(value)) for name, value in recorded.items()}
        size = sum(sizes.values())
        total += size * instances
        if total > MAX_RECORDED_BYTES:
            larger = max(sizes, key=sizes.__getitem__)
            raise Invalid(
                f"flavor and image take {size} bytes of JSON for each of {instances} instances, "
                f"more than {MAX_RECORDED_BYTES} in total",
                json_path=f"$.request_spec.{larger}",
            )


def compute_request_digest(uuids: Iterable[str], document: Document) -> str:
    """Return a digest that identifies equal requests for these instances.

    ``num_instances`` and the spelling of instance uuids in ``document`` make no difference.
    """
    body = {key: value for key, value in document.items() if key != "num_instances"}
    return compute_digest({**body, "instance_uuids": list(uuids)})


def _build_device_groups(request: InstancePCIRequest, source: str) -> Iterator[RequestedGroup]:
    """Yield a group for each device of a PCI request with an alias, as nova."""
    if request.alias_name is None:
        return
    if len(request.spec) != 1:
        raise Invalid(
            f"[filter_scheduler] pci_in_placement supports one spec per PCI request, not "
            f"{len(request.spec)}",
            json_path=f"{source}.spec",
        )
    try:
        resource_class, traits = build_placement_terms(request)
    except Invalid as error:
        raise Invalid(error.detail, json_path=source) from None
    for number in range(request.count):
        yield RequestedGroup(
            requester_id=f"{request.request_id}-{number}",
            resources={resource_class: 1},
            required_traits=frozenset(traits),
            source=source,
        )


def _has_stored_group(document: Document) -> bool:
    return isinstance(document.get("instance_group"), str) or _has_group_hint(document)


def _look_up_names(connection: Connection, document: Document) -> Document:
    """Return a document with stored objects in place of their names.

    Ids take precedence over names. Raises :class:`NotFound` if a flavor or image does not exist,
    and :class:`Invalid` if a server group does not exist, or for an ambiguous name.
    """
    resolved_document = dict(document)
    if isinstance(flavor := resolved_document.get("flavor"), str):
        stored = flavors.find_by_flavorid_or_name(connection, flavor)
        if stored is None:
            names = [stored_flavor.name for stored_flavor in flavors.list_flavors(connection)]
            raise _build_not_found("flavor", flavor, names)
        resolved_document["flavor"] = stored.as_document()
    if isinstance(image := resolved_document.get("image"), str):
        resolved_document["image"] = _get_image(connection, image)
    group = None
    if isinstance(uuid := resolved_document.get("instance_group"), str):
        group = _get_group(connection, formats.read(formats.parse_uuid, uuid, _GROUP_PATH))
    elif _has_group_hint(resolved_document):
        group = _get_hinted_group(connection, resolved_document)
    if group is not None:
        instance_uuids = frozenset(map(canonicalize_uuid, document.get("instance_uuids") or ()))
        current = server_groups.with_members(connection, group, without=instance_uuids)
        resolved_document["instance_group"] = current.as_document()
    return resolved_document


def _has_group_hint(document: Document) -> bool:
    """Return whether only the hint ``group`` names the server group."""
    if document.get("instance_group") is not None:
        return False
    return bool((document.get("scheduler_hints") or {}).get("group"))


def resolve_flavor(connection: Connection, flavor: Document | str | None) -> Document | None:
    """Return the object of a flavor, or only its id if the flavor is unknown."""
    if not isinstance(flavor, str):
        return flavor
    stored = flavors.find_by_flavorid_or_name(connection, flavor)
    return {"id": flavor} if stored is None else stored.as_document()


def _build_not_found(noun: str, name: str, names: Iterable[str]) -> NotFound:
    suggestion = suggest_name(noun, name, names)
    message = f"There is no stored {noun} {name!r}{suggestion}"
    return NotFound(message, json_path=f"$.request_spec.{noun}", code="scheduler.not_found")


def _get_image(connection: Connection, name: str) -> Document:
    candidates = images.list_by_name_or_uuid(connection, name)
    if not candidates:
        raise _build_not_found("image", name, images.list_names(connection))
    if len(candidates) > 1:
        uuids = ", ".join(image.uuid for image in candidates[:5])
        raise Invalid(
            f"{len(candidates)} images are named {name!r}. Use an id: {uuids}",
            json_path="$.request_spec.image",
        )
    return candidates[0].as_request_image()


def _get_group(connection: Connection, uuid: str, path: str = _GROUP_PATH) -> ServerGroup:
    group = server_groups.find_by_uuid(connection, uuid)
    if group is None:
        raise Invalid(f"There is no server group {uuid}", json_path=path)
    return group


def _get_hinted_group(connection: Connection, document: Document) -> ServerGroup:
    value = document["scheduler_hints"]["group"]
    names = [value] if isinstance(value, str) else value
    if len(names) != 1 or not isinstance(names[0], str):
        message = "the hint must be the uuid or name of a single server group"
        raise Invalid(message, json_path=_HINT_PATH)
    try:
        group = server_groups.find_by_uuid(connection, formats.read(formats.parse_uuid, names[0]))
    except Invalid:
        group = None
    project_id = document.get("project_id")
    groups = (group,) if group else server_groups.list_by_name(connection, names[0], project_id)
    if not groups:
        raise Invalid(f"There is no server group {names[0]!r}", json_path=_HINT_PATH)
    if len(groups) > 1:
        uuids = ", ".join(str(group.uuid) for group in groups[:5])
        raise Invalid(
            f"{len(groups)} server groups of the project are named {names[0]!r}, "
            f"use an id: {uuids}",
            json_path=_HINT_PATH,
        )
    return groups[0]
