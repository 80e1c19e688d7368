# SPDX-License-Identifier: Apache-2.0
"""Fleet files of clouds that are read over their APIs.

The section ``source`` has the cloud, the moments, missing facts, consumers without a server,
and the generations of providers for the next reading.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Any, NamedTuple

from placement_sched.clients.cloud_documents import ProviderReading, ServerReading, read_time
from placement_sched.clients.cloud_reader import FACTS_OF_NO_API, CloudReading, EarlierReading
from placement_sched.config.settings import Settings
from placement_sched.errors import Invalid
from placement_sched.extensions.fleet.anonymize import anonymize, build_sort_key
from placement_sched.extensions.fleet.names import CLOUD, UUID, Names
from placement_sched.model.compute_node import RATIOS, UNKNOWN_FIELDS, ComputeNode
from placement_sched.model.document import Json
from placement_sched.model.flavor import Flavor
from placement_sched.model.image import Image, StoredImage
from placement_sched.model.instance import Instance
from placement_sched.model.provider import INSTANCE_TYPE, MIGRATION_TYPE, Amounts, ConsumerClaim
from placement_sched.operations.fleet.cloud import (
    STANDARD_CLASSES,
    FlavorState,
    ProviderState,
    State,
    derive_uuid,
    drop_row_id,
    split_numbers,
)
from placement_sched.operations.fleet.dump import SortKey, build_document
from placement_sched.operations.fleet.merge import merge_document
from placement_sched.operations.reports import build_defaults
from placement_sched.scheduler.policies.registry import get_policies
from placement_sched.schemas.formats import DocumentError
from placement_sched.schemas.node_report import Defaults, read_report
from placement_sched.schemas.yaml_file import YamlFile, to_yaml

#: The types of consumers that nova writes. Before placement 1.38, the type is unknown.
_NOVA_TYPES = (None, INSTANCE_TYPE, MIGRATION_TYPE)
#: The fields of a flavor that a server embeds.
_EMBEDDED = ("name", "vcpus", "memory_mb", "root_gb", "ephemeral_gb", "swap")
_NO_API = "no API shows it"
#: The text that replaces other reasons in anonymised files. Reasons may have names of hosts.
_NOT_SHARED = "the reason is not shared"


class Fact(NamedTuple):
    """A fact that can be missing: its title, and the answers it weakens."""

    title: str
    weakens: str


_SCHEDULE_AGAIN = "explain --server, plan and rebalance: servers may seem free to move"
#: The facts that a fetched file may miss.
FACTS: Mapping[str, Fact] = {
    "host_numa": Fact(
        "NUMA cells and huge pages of hosts", "requests with NUMA nodes, pinned CPUs or huge pages"
    ),
    "pci_pools": Fact("PCI devices outside placement", "requests with PCI aliases"),
    "supported_instances": Fact(
        "architectures and VM modes of hosts", "images that require an architecture or VM mode"
    ),
    "stats": Fact("I/O load and builds of hosts", "IoOpsFilter and weighers of load and failures"),
    "metrics": Fact("metrics of hosts", "MetricsWeigher"),
    "cells": Fact("the cell of each host", "alternates and moves across cells"),
    "port_requests": Fact("resources of ports", "moves of servers with bandwidth or devices"),
    "server_group_rules": Fact("rules of server groups", "anti-affinity with several per host"),
    "down_cells": Fact("cells that do not answer", "hosts and servers of these cells"),
    "pinned_zones": Fact("zones that servers are pinned to", _SCHEDULE_AGAIN),
    "image_properties": Fact("image properties of servers", "servers whose image has changed"),
    "scheduler_hints": Fact("scheduler hints of servers", _SCHEDULE_AGAIN),
    "provider_aggregates": Fact("other aggregates of providers", "requests with member_of"),
    "one_moment": Fact("a single moment", "usage of providers that changed"),
    "server_groups": Fact("server groups", "affinity and anti-affinity"),
    "images": Fact("images", "requests that name an image"),
    "migrations": Fact("migrations", "which consumers are in flight and which are orphaned"),
    "flavor_access": Fact("access to private flavors", "which projects may use a flavor"),
    "extra_specs": Fact("extra specs of flavors", "requests that name a flavor"),
    "server_extra_specs": Fact("extra specs of servers", _SCHEDULE_AGAIN),
    "private_flavors": Fact("private flavors without servers", "requests that name a flavor"),
    "other_server_groups": Fact("server groups of other projects", "affinity and anti-affinity"),
    "private_images": Fact("private images of other projects", "requests that name an image"),
}
#: The facts that services hide from callers without the role admin.
_OF_ADMINISTRATORS = ("private_flavors", "other_server_groups", "private_images")


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchedCloud:
    """A cloud to write to a file, with its consumers that have no server.

    ``in_flight`` maps consumers to the server that moves, or to None if it is being created.
    """

    state: State
    missing: Mapping[str, str]
    in_flight: Mapping[str, str | None]
    orphaned: tuple[str, ...]


def build_cloud(
    reading: CloudReading, settings: Settings, *, is_administrator: bool
) -> FetchedCloud:
    """Build the state of a cloud from a reading.

    For a caller who is no administrator, private flavors are completed from the flavors that
    servers embed. ``settings`` have the values that no API shows.
    """
    lists = reading.lists
    missing = {**dict.fromkeys(FACTS_OF_NO_API, _NO_API), **reading.missing}
    if not is_administrator:
        missing |= dict.fromkeys(_OF_ADMINISTRATORS, "the caller has no role admin")
    flavors = {
        str(flavor.flavorid): FlavorState(
            flavor=flavor, projects=lists.projects.get(str(flavor.flavorid), frozenset())
        )
        for flavor in lists.flavors
    }
    if not is_administrator:
        flavors |= _complete_flavors(lists.flavors, lists.servers.values())
    images = {item.uuid: item for item in lists.images}
    servers = lists.servers
    groups = {member: group.uuid for group in lists.server_groups for member in group.members}
    by_name = {str(item.name): item.flavor for item in flavors.values()}
    allocations = _drop_deleted_providers(reading)
    nodes = _build_nodes(reading, build_defaults(settings, reading.ended))
    services = {(item.host, item.binary): item for item in lists.services}
    in_flight: dict[str, str | None] = {
        uuid: reading.migrations.get(uuid)
        for uuid in reading.consumers
        if uuid not in servers and (uuid in reading.migrations or uuid in reading.appeared)
    }
    orphaned = (
        uuid
        for uuid, consumer in reading.consumers.items()
        if uuid not in servers and uuid not in in_flight and consumer.consumer_type in _NOVA_TYPES
    )
    state = State(
        resource_classes=set(reading.resource_classes) - STANDARD_CLASSES,
        traits=set(reading.traits),
        flavors=flavors,
        images=images,
        server_groups={str(item.uuid): replace(item, members=()) for item in lists.server_groups},
        nodes=nodes,
        services=services,
        providers={uuid: _build_provider(item) for uuid, item in reading.providers.items()},
        aggregates={item.uuid: item for item in lists.aggregates},
        instances={
            uuid: _build_instance(
                server.record,
                flavors=by_name,
                images=images,
                group=groups.get(uuid),
                allocations=allocations.get(uuid, {}),
            )
            for uuid, server in servers.items()
        },
        consumers=_build_consumers(reading, allocations, settings),
    )
    return FetchedCloud(
        state=state, missing=missing, in_flight=in_flight, orphaned=tuple(sorted(orphaned))
    )


def build_file(cloud: FetchedCloud, reading: CloudReading, name: str, settings: Settings) -> str:
    """Build the text of a cloud's fleet file, and check that it can be loaded.

    Raises :class:`Invalid` if the cloud has a value that no fleet file can have.
    """
    source = _build_source(cloud, reading, name)
    return _build_text(cloud.state, source, name, settings, reading.ended)


def build_anonymised_file(
    cloud: FetchedCloud, reading: CloudReading, name: str, settings: Settings, names: Names
) -> tuple[str, Names]:
    """Build the text of a cloud's fleet file with labels.

    Returns the text, and the names with its labels. Raises :class:`Invalid` as :func:`build_file`.
    """
    state, names = anonymize(cloud.state, names, settings.DEFAULT.default_availability_zone)
    source, names = anonymize_source(_build_source(cloud, reading, name), names)
    text = _build_text(state, source, name, settings, reading.ended, build_sort_key(names))
    return text, names


def anonymize_source(source: Mapping[str, Any], names: Names) -> tuple[Json, Names]:
    """Return the section ``source`` with labels, and all names.

    Reasons that may have names of the cloud are replaced.
    """
    in_flight, generations = source.get("in_flight", {}), source.get("generations", {})
    orphaned = source.get("orphaned", ())
    uuids = {*in_flight, *filter(None, in_flight.values()), *orphaned, *generations}
    names = names.extend([(CLOUD, source["cloud"]), *((UUID, uuid) for uuid in sorted(uuids))])
    label = partial(names.get_label, UUID)
    sections = {
        "cloud": names.get_label(CLOUD, source["cloud"]),
        "missing": {
            fact: reason if reason == _NO_API else _NOT_SHARED
            for fact, reason in source.get("missing", {}).items()
        },
        "in_flight": {label(uuid): server and label(server) for uuid, server in in_flight.items()},
        "orphaned": sorted(map(label, orphaned)),
        "generations": {label(uuid): number for uuid, number in generations.items()},
    }
    return {key: sections.get(key, value) for key, value in source.items()}, names


def _build_source(cloud: FetchedCloud, reading: CloudReading, name: str) -> Json:
    source = {
        "cloud": name,
        "fetched": {"from": _format(reading.began), "to": _format(reading.ended)},
        "versions": dict(reading.versions),
        "missing": dict(cloud.missing),
        "in_flight": dict(sorted(cloud.in_flight.items())),
        "orphaned": list(cloud.orphaned),
        "generations": {uuid: item.generation for uuid, item in reading.providers.items()},
    }
    return {key: value for key, value in source.items() if value}


def _build_text(
    state: State,
    source: Json,
    name: str,
    settings: Settings,
    now: datetime,
    get_sort_key: SortKey = split_numbers,
) -> str:
    document = build_document(state, settings, now, get_sort_key)
    text = to_yaml({"version": document.pop("version"), "source": source, **document})
    file = YamlFile(text, f"the cloud {name} has a value that no file can have")
    file.read(lambda data: merge_document(State(), data, settings, now))
    return text


def read_earlier(
    text: str, file: str, name: str, settings: Settings, now: datetime, names: Names | None = None
) -> EarlierReading:
    """Read the providers of an earlier file of the same cloud.

    ``names`` translate the labels of an anonymised file. Raises :class:`Invalid` for a file that is
    not fetched, or that is of another cloud.
    """
    document = YamlFile(text, file)
    state = document.read(lambda data: merge_document(State(), data, settings, now)).after
    source = (document.data or {}).get("source")
    if source is None:
        raise Invalid(f"{file} is no fetched file: name another file, or delete it")

    def restore(value: Any) -> Any:
        # The cloud has its name if the earlier file is not anonymised.
        return value if names is None or source["cloud"] == name else names.restore(value)

    if (cloud := restore(source["cloud"])) != name:
        raise Invalid(f"{file} is a file of the cloud {cloud}: name another file")
    allocations: dict[str, dict[str, Amounts]] = {}
    for uuid, consumer in state.consumers.items():
        for provider, amounts in consumer.allocations.items():
            allocations.setdefault(provider, {})[restore(uuid)] = restore(amounts)
    # A file lacks ratios that follow from the policy of an aggregate.
    with_ratios = state.map_ratios_by_host(get_policies(settings))
    incomplete = {uuid for uuid, node in state.nodes.items() if node.host in with_ratios}
    generations = source.get("generations", {})
    return EarlierReading(
        began=read_time(source["fetched"]["from"]) or now,
        providers={
            restore(uuid): ProviderReading(
                uuid=restore(uuid),
                name=item.name,
                parent=restore(item.parent),
                generation=generations[uuid],
                inventories={
                    restore(name): replace(inventory, resource_class=restore(name))
                    for name, inventory in item.inventories.items()
                },
                allocations=allocations.get(uuid, {}),
            )
            for uuid, item in state.providers.items()
            if uuid in generations and uuid not in incomplete
        },
    )


def _format(moment: datetime) -> str:
    return f"{moment.isoformat(timespec='seconds')}Z"


def _complete_flavors(
    listed: Iterable[Flavor], servers: Iterable[ServerReading]
) -> dict[str, FlavorState]:
    """Build the private flavors that servers embed, with derived ids."""
    names = {flavor.name for flavor in listed}
    embedded = {
        server.record.flavor["name"]: server.record.flavor
        for server in servers
        if server.record.flavor and server.record.flavor["name"] not in names
    }
    flavors = [
        replace(
            Flavor.from_document(document), flavorid=derive_uuid("flavor", name), is_public=False
        )
        for name, document in sorted(embedded.items())
    ]
    return {str(flavor.flavorid): FlavorState(flavor=flavor) for flavor in flavors}


def _drop_deleted_providers(reading: CloudReading) -> dict[str, dict[str, Amounts]]:
    """Return the allocations on providers that still exist."""
    return {
        consumer: {
            uuid: amounts for uuid, amounts in by_provider.items() if uuid in reading.providers
        }
        for consumer, by_provider in reading.allocations.items()
    }


def _build_nodes(reading: CloudReading, defaults: Defaults) -> dict[str, ComputeNode]:
    """Build the nodes, with ratios and reserved amounts of providers."""
    heartbeats = {
        item.host: item.last_seen_up for item in reading.lists.services if item.last_seen_up
    }
    nodes = {}
    for report in reading.lists.reports:
        root = reading.providers.get(report["uuid"])
        inventories = root.inventories if root else {}
        ratios = {
            ratio: inventories[name].allocation_ratio
            for name, ratio in RATIOS.items()
            if name in inventories
        }
        reserved = {
            name: inventories[name].reserved
            for name in RATIOS
            if name in inventories and inventories[name].reserved
        }
        last_seen = heartbeats.get(report["host"], reading.ended)
        values = {**report, **ratios, "reserved": reserved, "unknown": list(UNKNOWN_FIELDS)}
        defaults = replace(defaults, now=last_seen)
        try:
            node = read_report(values, defaults, in_file=True).node
        except DocumentError:
            node = read_report({**values, "reserved": {}}, defaults, in_file=True).node
        nodes[node.uuid] = node
    return nodes


def _build_provider(item: ProviderReading) -> ProviderState:
    return ProviderState(
        uuid=item.uuid,
        name=item.name,
        parent=item.parent,
        inventories=item.inventories,
        traits=item.traits,
        aggregates=item.aggregates,
    )


def _build_instance(
    record: Instance,
    *,
    flavors: Mapping[str, Flavor],
    images: Mapping[str, StoredImage],
    group: str | None,
    allocations: Mapping[str, Amounts],
) -> Instance:
    """Complete a server with its flavor, image and root disk."""
    flavor, request = record.flavor, record.request
    if flavor is not None:
        embedded = Flavor.from_document(flavor)
        stored = flavors.get(embedded.name)
        is_same = stored is not None and _select(stored) == _select(embedded)
        flavor = drop_row_id((stored if stored and is_same else embedded).as_document())
        if request and request["is_bfv"]:
            # A server without an image, and with its root disk on the host, is no such server.
            disk = sum(amounts.get("DISK_GB", 0) for amounts in allocations.values())
            request = {**request, "is_bfv": not embedded.root_gb or disk < embedded.root_gb}
    return replace(
        record,
        flavor=flavor,
        image=_complete_image(record.image, images),
        server_group=group,
        request=request,
        updated_at=None,
        system_metadata={},
    )


def _select(flavor: Flavor) -> tuple[Any, ...]:
    return (*(getattr(flavor, name) for name in _EMBEDDED), dict(flavor.extra_specs))


def _complete_image(
    image: Mapping[str, Any] | None, images: Mapping[str, StoredImage]
) -> Mapping[str, Any] | None:
    """Return the stored image of a server, or the image that it shows."""
    stored = images.get(str(image["id"])) if image else None
    if image is None or stored is None:
        return image
    document = stored.as_request_image()
    if "properties" not in image:
        return document
    try:
        current = Image.from_document(document).properties.to_dict()
        is_same = current == Image.from_document(image).properties.to_dict()
    except Invalid:
        is_same = False
    return document if is_same else {**document, "properties": image["properties"]}


def _build_consumers(
    reading: CloudReading, allocations: Mapping[str, Mapping[str, Amounts]], settings: Settings
) -> dict[str, ConsumerClaim]:
    consumers = {}
    project, user = settings.unknown_owner
    for uuid, by_provider in allocations.items():
        server, consumer = reading.lists.servers.get(uuid), reading.consumers.get(uuid)
        if server is not None:
            owner = (server.record.project_id or project, server.record.user_id or user)
            kind: str | None = INSTANCE_TYPE
        elif consumer is not None:
            owner, kind = (consumer.project_id, consumer.user_id), consumer.consumer_type
        else:
            continue
        if by_provider:
            consumers[uuid] = ConsumerClaim(
                consumer=uuid,
                project_id=owner[0],
                user_id=owner[1],
                consumer_type=kind,
                allocations=by_provider,
            )
    return consumers
