"""Read a request: look up what it names, choose its policy, derive what it leaves out.

What is left out of a request, nova's API derives from flavor and image before it schedules: a
topology of NUMA cells and requests for PCI devices; with ``[filter_scheduler] pci_in_placement``
the latter are asked of placement, a group for each device.
"""

import logging
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, Protocol
from uuid import uuid4

import orjson

from placement_sched.clients.neutron import Neutron
from placement_sched.clients.session import by_options
from placement_sched.config.settings import Settings
from placement_sched.config.sources import OF_REQUEST
from placement_sched.db.scratch import Readable
from placement_sched.db.transaction import Connection
from placement_sched.errors import ConfigurationError, Invalid, NotFound, TooComplex
from placement_sched.limits import MAX_ALTERNATES, MAX_RECORDED_BYTES
from placement_sched.model.clock import Clock
from placement_sched.model.document import Document, Json
from placement_sched.model.hardware.pci_requests import (
    InstancePCIRequest,
    InstancePCIRequests,
    placement_terms,
)
from placement_sched.model.names import canonical, suggested
from placement_sched.model.request_spec import (
    REBUILD_HINT,
    NetworkRequest,
    Port,
    RequestedGroup,
    RequestSpec,
    request_spec_from,
)
from placement_sched.scheduler.caches import AggregateCache, Aggregates
from placement_sched.scheduler.filtering import is_named
from placement_sched.scheduler.live_settings import LiveSettings, overridden
from placement_sched.scheduler.plugins import Plugins, enforcer_of, plugins_for
from placement_sched.scheduler.policies import registry
from placement_sched.schemas import formats
from placement_sched.store import images
from placement_sched.store.compute import flavors, instances, server_groups
from placement_sched.store.placement import allocations

_PLACE = "$.request_spec.requested_networks"


class NetworkDirectory(Protocol):
    """What knows networks; raises :class:`~placement_sched.errors.ServiceFailed`."""

    def port(self, port_id: str) -> Port | None:
        """Return a port, or None where there is none."""

    def segments_of_subnet(self, subnet_id: str) -> tuple[str, ...] | None:
        """Return the segment that a subnet is on, if any, or None where there is no subnet."""

    def segments_of_network(self, network_id: str) -> tuple[str, ...]:
        """Return the segments of a network; none where it is not routed."""


def neutron_of(settings: Settings) -> Neutron | None:
    """Return the neutron that ``[neutron]`` describes; None where it describes none.

    Raises :class:`~placement_sched.errors.ConfigurationError` where its options do not fit.
    """
    options = settings.neutron
    adapter = by_options(settings.conf, "neutron", retries=options.http_retries)
    if adapter is None:
        return None
    return Neutron(adapter, remembered=options.extension_sync_interval)


def with_facts(
    spec: RequestSpec, neutron: NetworkDirectory | None, settings: Settings
) -> RequestSpec:
    """Return the request with what the enabled request filters need to know of its networks.

    What the caller gave is not asked, and everything else once. Raises :class:`Invalid` for a
    port or subnet that is not there, and what ``neutron`` raises.
    """
    if neutron is None or spec.is_rebuild or not spec.requested_networks:
        return spec
    asking = _Asking(
        neutron, bool(settings.scheduler.query_placement_for_routed_network_aggregates)
    )
    networks = tuple(
        asking.complete(network, f"{_PLACE}[{position}]")
        for position, network in enumerate(spec.requested_networks)
    )
    return replace(spec, requested_networks=networks)


class _Asking:
    """The questions of one request, each of which is asked of neutron once.

    ``routed`` says whether segments are of interest.
    """

    def __init__(self, neutron: NetworkDirectory, routed: bool) -> None:
        self._routed = routed
        self._port = cache(neutron.port)
        self._segments_of_subnet = cache(neutron.segments_of_subnet)
        self._segments_of_network = cache(neutron.segments_of_network)

    def complete(self, network: NetworkRequest, place: str) -> NetworkRequest:
        """Return a network or port with what is of interest and was not given."""
        if network.port_id and self._lacks_port(network):
            port = self._port(network.port_id)
            if port is None:
                raise Invalid(f"neutron has no port {network.port_id}", at=f"{place}.port_id")
            network = network.with_port(port)
        if not self._routed or network.segments is not None or network.is_open:
            return network
        if network.subnet_id is None:
            named = network.named_network
            return network.reaching(self._segments_of_network(named) if named else ())
        found = self._segments_of_subnet(network.subnet_id)
        if found is None:
            raise Invalid(f"neutron has no subnet {network.subnet_id}", at=place)
        return network.reaching(found)

    def _lacks_port(self, network: NetworkRequest) -> bool:
        """Return whether the port has to be asked for: its type, or where it may be reached."""
        if network.vnic_type is None:
            return True
        if not self._routed or network.segments is not None or network.subnet_id:
            return False
        return network.subnet_ids is None or network.network_id is None


LOG = logging.getLogger(__name__)
_BUILDING = "building"


def check_rebuild(database: Readable, spec: RequestSpec) -> None:
    """Raise :class:`Invalid` for a rebuild of an instance that is not on the host that is named."""
    if not spec.is_rebuild:
        return
    with database.read() as connection:
        recorded = instances.by_uuids(connection, spec.instance_uuids)
        there = {one.uuid for one in recorded if is_named(spec, one.host or "", one.node or "")}
        # An instance that is not built yet is there by its claim alone.
        claimed = {one.uuid for one in recorded if one.vm_state == _BUILDING}
        held = allocations.of_consumers(connection, claimed) if claimed else ()
        there -= claimed - {one.consumer.uuid for one in held}
    for uuid in spec.instance_uuids or ("without a uuid",):
        if uuid not in there:
            raise Invalid(
                f"the hint {REBUILD_HINT}=rebuild is for an instance on the host that the request "
                f"names, and instance {uuid} is not on it",
                at=f"$.request_spec.scheduler_hints.{REBUILD_HINT}",
            )


def without_false_rebuild(database: Readable, document: Document) -> Json:
    """Return a request of nova's without the hint of a rebuild if that is invalid, and log it."""
    hints = document.get("scheduler_hints") or {}
    if REBUILD_HINT not in hints:
        return dict(document)
    try:
        check_rebuild(database, request_spec_from(document))
    except Invalid as wrong:
        LOG.warning("%s; the hint is ignored", wrong.detail)
        hints = {name: value for name, value in hints.items() if name != REBUILD_HINT}
    return {**document, "scheduler_hints": hints}


_GROUP = "$.request_spec.instance_group"
_HINT = "$.request_spec.scheduler_hints.group"


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulingRequest:
    """A request under its policy: its spec, and the settings and plugins that decide on it.

    ``document`` is what the caller sent; ``whole`` has what it names in place of the names.
    ``alternates`` is how many hosts to add for each instance. ``policies`` are all that hosts may
    be under. ``aggregates`` are the host aggregates, if the choice of the policy has read them.
    ``overrides`` and ``named_policy`` are what an explanation was asked for by name.
    """

    spec: RequestSpec
    settings: Settings
    plugins: Plugins
    document: Document = field(default_factory=dict)
    whole: Document = field(default_factory=dict)
    chosen: registry.ChosenPolicy | None = None
    policies: registry.Policies | None = None
    aggregates: Aggregates | None = None
    alternates: int = 0
    overrides: Mapping[str, Any] = field(default_factory=dict)
    named_policy: str | None = None

    @property
    def names_group(self) -> bool:
        """Return whether it names a stored server group, whose members come and go.

        One that it describes is the caller's, with members and hosts as the caller knows them.
        """
        document = self.document
        return isinstance(document.get("instance_group"), str) or _hints_group(document)

    @property
    def joined_group(self) -> str | None:
        """Return the stored group that its instances become members of.

        Not one that it describes, whose policy the caller keeps: the members here may be others.
        """
        group = self.spec.instance_group
        return group.uuid if group is not None and self.names_group else None


@dataclass(frozen=True, slots=True)
class RequestReader:
    """Reads requests, by the settings in effect at the moment."""

    database: Readable
    live: LiveSettings
    clock: Clock
    aggregates: AggregateCache
    neutron: NetworkDirectory | None = None

    def read(
        self,
        document: Document,
        *,
        alternates: bool = False,
        policy: str | None = None,
        overrides: Mapping[str, Any] | None = None,
    ) -> SchedulingRequest:
        """Return the request that a document describes.

        ``policy`` names the one to use, whichever would be chosen. Raises :class:`Invalid` for
        what cannot be, and :class:`NotFound` where a named flavor or image is not stored.
        """
        whole = self._whole(document)
        running = self.live.settings()
        settings = self._overridden(running, overrides)
        asked = request_spec_from(whole)
        if not asked.instance_uuids:
            uuids = tuple(str(uuid4()) for _ in range(asked.num_instances))
            asked = replace(asked, instance_uuids=uuids)
        check_rebuild(self.database, asked)
        spec = completed(asked, whole, settings)
        policies = registry.policies_for(running, self.clock)
        chosen, aggregates = self._choose(spec, policies, policy)
        under_policy = self._overridden(chosen.policy.settings, overrides)
        if under_policy is not settings:
            settings = under_policy
            spec = completed(asked, whole, settings)
        plugins = plugins_for(settings, self.clock)
        return SchedulingRequest(
            spec=chosen.confining(spec),
            settings=settings,
            plugins=plugins.for_rebuild() if spec.is_rebuild else plugins,
            document=document,
            whole=whole,
            chosen=chosen,
            policies=policies,
            aggregates=aggregates,
            alternates=settings.scheduler.max_attempts - 1 if alternates else 0,
            overrides=overrides or {},
            named_policy=policy,
        )

    @staticmethod
    def instances_of(document: Document) -> RequestSpec:
        """Return which instances a request places, and whether it rebuilds them; nothing else."""
        names = ("instance_uuids", "scheduler_hints")
        return request_spec_from({name: document[name] for name in names if name in document})

    def checked(self, request: SchedulingRequest) -> SchedulingRequest:
        """Return the request with what neutron knows of its networks.

        Raises :class:`Invalid` where no enabled plugin supports the policy of its server group (as
        in nova, which does not ignore it), a network is not there, or flavor and image are too
        large to be recorded with each instance, and :class:`ServiceFailed` where neutron does not
        answer. A rebuild stays where it is, whatever its group.
        """
        spec, group = request.spec, request.spec.instance_group
        _check_recorded(len(spec.instance_uuids), request.whole)
        _check_alternates(len(spec.instance_uuids), request.alternates)
        if group is not None and not spec.is_rebuild and not request.plugins.enforces(group.policy):
            raise Invalid(
                f"The server group's policy {group.policy} is not supported: "
                f"{enforcer_of(group.policy)} is not enabled",
                at="$.request_spec.instance_group",
            )
        return replace(request, spec=with_facts(spec, self.neutron, request.settings))

    def read_again(self, request: SchedulingRequest) -> SchedulingRequest:
        """Return the request as it is now: members of its server group may have come or gone."""
        request = replace(request, aggregates=None)
        if not request.names_group:
            return request
        whole = self._whole(request.document)
        spec = replace(
            completed(request_spec_from(whole), whole, request.settings),
            instance_uuids=request.spec.instance_uuids,
            requested_networks=request.spec.requested_networks,
        )
        spec = request.chosen.confining(spec) if request.chosen else spec
        return replace(request, whole=whole, spec=spec)

    def _whole(self, document: Document) -> Document:
        """Return the request with what it names looked up among what is stored."""
        if not _names_some(document):
            return document
        with self.database.read() as connection:
            return _looked_up(connection, document)

    def check_overrides(self, overrides: Mapping[str, Any]) -> None:
        """Raise :class:`Invalid` where an option cannot have this value for a run alone."""
        self._overridden(self.live.settings(), overrides)

    def _overridden(self, settings: Settings, overrides: Mapping[str, Any] | None) -> Settings:
        if not overrides:
            return settings
        settings = overridden(settings, overrides)
        try:
            registry.checked_plugins(settings, self.clock)
        except ConfigurationError as wrong:
            raise Invalid(f"{OF_REQUEST}: {wrong.detail}") from None
        return settings

    def _choose(
        self, spec: RequestSpec, policies: registry.Policies, named: str | None
    ) -> tuple[registry.ChosenPolicy, Aggregates | None]:
        """Return the policy of a request, and the host aggregates where it depends on them."""
        if not policies.imaginable and named is None:
            return registry.ChosenPolicy(policies.default), None
        with self.database.read() as connection:
            aggregates = self.aggregates.current(connection)
        tagged = aggregates.of_policies
        if named is None:
            selectors = plugins_for(policies.default.settings, self.clock).selectors
            return registry.choose(spec, policies, selectors, tagged), aggregates
        try:
            return registry.under(named, policies, tagged), aggregates
        except ConfigurationError as wrong:
            raise Invalid(f"policy: {wrong.detail}") from None


def completed(spec: RequestSpec, document: Mapping[str, Any], settings: Settings) -> RequestSpec:
    """Return the request with what ``document`` does not say derived from its flavor and image.

    What is said, be it null, is taken as it is. Raises :class:`Invalid` for a flavor or image that
    cannot be, or contradict each other, naming the keys.
    """
    if "numa_topology" not in document:
        spec = replace(spec, numa_topology=spec.hardware.numa_topology)
    derived = "pci_requests" not in document
    if derived:
        requests = spec.hardware.pci_requests(registry.pci_aliases(settings))
        spec = replace(spec, pci_requests=InstancePCIRequests(requests=requests))
    if not settings.filter_scheduler.pci_in_placement or spec.pci_requests is None:
        return spec
    asked = spec.pci_requests.requests
    number, most = sum(one.count for one in asked), settings.placement.max_request_groups
    if number > most:
        raise TooComplex(
            f"{number} PCI devices, with a request group each, exceed "
            f"[placement] max_request_groups ({most})."
        )
    groups: list[RequestedGroup] = []
    # Nova's API has made them already, where it has this option too.
    there = {group.requester_id for group in spec.requested_resources}
    for position, one in enumerate(asked):
        source = f"$.request_spec.pci_requests.requests[{position}]"
        if derived:
            source = f"flavor extra spec 'pci_passthrough:alias', [pci] alias {one.alias_name!r}"
        made = _device_groups(one, source)
        groups += [group for group in made if group.requester_id not in there]
    return replace(spec, requested_resources=(*spec.requested_resources, *groups))


def _check_alternates(instances: int, alternates: int) -> None:
    """Raise :class:`Invalid` where so many alternates for each instance are too many hosts."""
    if instances * alternates > MAX_ALTERNATES:
        raise Invalid(
            f"[scheduler] max_attempts asks for {alternates} alternates for each of {instances} "
            f"instances, and there may be {MAX_ALTERNATES} for all together",
            at="$.request_spec.num_instances",
        )


def _check_recorded(instances: int, whole: Document) -> None:
    """Raise :class:`Invalid` where flavor and image are too large for so many instances."""
    sizes = {name: len(orjson.dumps(whole.get(name))) for name in ("flavor", "image")}
    if (size := sum(sizes.values())) * instances > MAX_RECORDED_BYTES:
        larger = max(sizes, key=sizes.__getitem__)
        raise Invalid(
            f"flavor and image have {size} bytes of JSON for each of {instances} instances, "
            f"and may have {MAX_RECORDED_BYTES} for all together",
            at=f"$.request_spec.{larger}",
        )


def _device_groups(request: InstancePCIRequest, source: str) -> Iterator[RequestedGroup]:
    """Yield a group for each device, for which any provider of the tree will do.

    Devices of neutron's ports are none of placement's, as in nova.
    """
    if request.alias_name is None:
        return
    if len(request.spec) != 1:
        raise Invalid(
            f"[filter_scheduler] pci_in_placement takes one spec for a request, not "
            f"{len(request.spec)}",
            at=f"{source}.spec",
        )
    try:
        resource_class, traits = placement_terms(request)
    except Invalid as wrong:
        raise Invalid(wrong.detail, at=source) from None
    for number in range(request.count):
        yield RequestedGroup(
            requester_id=f"{request.request_id}-{number}",
            resources={resource_class: 1},
            required_traits=frozenset(traits),
            source=source,
        )


def _names_some(document: Document) -> bool:
    """Return whether a request names what has to be looked up."""
    named = any(isinstance(document.get(noun), str) for noun in ("flavor", "image"))
    return named or isinstance(document.get("instance_group"), str) or _hints_group(document)


def _looked_up(connection: Connection, document: Document) -> Document:
    """Return the request with what it names in place of the name.

    An id goes before a name. Raises :class:`NotFound` where there is no such flavor or image, and
    :class:`Invalid` where there is no such server group, or several of that name.
    """
    found = dict(document)
    if isinstance(flavor := found.get("flavor"), str):
        stored = flavors.by_flavorid_or_name(connection, flavor)
        if stored is None:
            names = [one.name for one in flavors.all_flavors(connection)]
            raise _missing("flavor", flavor, names)
        found["flavor"] = stored.as_document()
    if isinstance(image := found.get("image"), str):
        found["image"] = _image(connection, image)
    if isinstance(uuid := found.get("instance_group"), str):
        group = server_groups.by_uuid(connection, formats.read(formats.uuid, uuid, _GROUP))
        if group is None:
            raise Invalid(f"There is no server group {uuid}", at=_GROUP)
        own = _instances_of(document)
        found["instance_group"] = server_groups.placed(connection, group, without=own).as_document()
    elif _hints_group(found):
        found["instance_group"] = _hinted_group(connection, found)
    return found


def _instances_of(document: Document) -> frozenset[str]:
    return frozenset(map(canonical, document.get("instance_uuids") or ()))


def _hints_group(document: Document) -> bool:
    """Return whether the hint ``group`` stands for the server group that is not given."""
    if document.get("instance_group") is not None:
        return False
    return bool((document.get("scheduler_hints") or {}).get("group"))


def flavor_for_record(connection: Connection, given: Document | str | None) -> Document | None:
    """Return a flavor as an instance's record keeps it: whole, where it is given so or stored.

    Of one that is not stored, and may have been once, the id is kept.
    """
    if not isinstance(given, str):
        return given
    found = flavors.by_flavorid_or_name(connection, given)
    return {"id": given} if found is None else found.as_document()


def _missing(noun: str, named: str, known: Iterable[str]) -> NotFound:
    near = suggested(noun, named, known)
    message = f"There is no stored {noun} {named!r}{near}"
    return NotFound(message, at=f"$.request_spec.{noun}", code="scheduler.not_found")


def _image(connection: Connection, named: str) -> Document:
    found = images.called(connection, named)
    if not found:
        raise _missing("image", named, images.all_names(connection))
    if len(found) > 1:
        uuids = ", ".join(image.uuid for image in found[:5])
        raise Invalid(
            f"{len(found)} images are named {named!r}, give the id of one: {uuids}",
            at="$.request_spec.image",
        )
    return found[0].as_request_image()


def _hinted_group(connection: Connection, document: Document) -> Document:
    """Return the server group that the hint names: by its uuid, else by its name in the project."""
    given = document["scheduler_hints"]["group"]
    named = [given] if isinstance(given, str) else given
    if len(named) != 1 or not isinstance(named[0], str):
        raise Invalid(f"one server group is expected, got {len(named)}", at=_HINT)
    try:
        group = server_groups.by_uuid(connection, formats.read(formats.uuid, named[0]))
    except Invalid:
        group = None
    project_id = document.get("project_id")
    found = (group,) if group else server_groups.called(connection, named[0], project_id)
    if not found:
        raise Invalid(f"There is no server group {named[0]!r}", at=_HINT)
    if len(found) > 1:
        uuids = ", ".join(str(group.uuid) for group in found[:5])
        raise Invalid(
            f"{len(found)} server groups of the project are named {named[0]!r}, "
            f"give the id of one: {uuids}",
            at=_HINT,
        )
    own = _instances_of(document)
    return server_groups.placed(connection, found[0], without=own).as_document()
