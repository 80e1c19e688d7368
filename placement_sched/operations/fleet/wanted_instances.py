"""Lays what a fleet file says of instances and allocations over what there is."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from placement_sched.errors import Invalid
from placement_sched.model.allocation import INSTANCE_TYPE
from placement_sched.model.flavor import Flavor
from placement_sched.model.instance import Instance
from placement_sched.model.shape import Misfit
from placement_sched.operations.fleet.entries import located, one_for_each
from placement_sched.operations.fleet.reading import plain_flavor
from placement_sched.operations.fleet.state import (
    ITS_ROW,
    ConsumerState,
    FlavorState,
    ProviderState,
)
from placement_sched.operations.fleet.wanted import Amounts, Draft, derived

Json = dict[str, Any]
Held = dict[str, Amounts]

_PLAIN = {"project": "project_id", "user": "user_id"}
_SAME = ("vm_state", "task_state")


class Instances:
    """Lays instances and allocations over a draft that has everything else already."""

    def __init__(self, draft: Draft, rows: Mapping[str, Any]) -> None:
        """Take the draft, and the numbers of stored flavors' rows by flavorid."""
        self._draft = draft
        self._rows = rows
        self._nodes: dict[str, list[str]] = defaultdict(list)
        for host, node in draft.node_names:
            self._nodes[host].append(node)
        self._flavors: dict[str, FlavorState] = {}
        for one in draft.flavors.values():
            self._flavors[one.flavor.name] = one
        self._flavors |= draft.flavors
        self._images: dict[str, list[str]] = defaultdict(list)
        for uuid, image in draft.images.items():
            self._images[image.image.name or ""].append(uuid)

    def lay(self, entry: Json) -> None:
        """Make the instances of an entry; raises :class:`Misfit`."""
        names, uuids = _names(entry)
        hosts = self._each(entry, "host", len(uuids))
        nodes = self._each(entry, "node", len(uuids))
        given = self._given(entry)
        for index, uuid in enumerate(uuids):
            self._draft.once("instance", uuid)
            changes = dict(given)
            if names is not None:
                changes["display_name"] = names[index]
            if hosts is not None:
                changes["host"] = hosts[index]
                changes["node"] = self._node_of(hosts[index])
            if nodes is not None:
                changes["node"] = nodes[index]
            self._put(uuid, changes, entry)

    def lay_allocations(self, entry: Json) -> None:
        """Make what a consumer holds that is no instance; raises :class:`Misfit`."""
        uuid = entry["consumer"]
        self._draft.once("consumer", uuid)
        self._hold(
            ConsumerState(
                uuid=uuid,
                project_id=entry["project"],
                user_id=entry["user"],
                consumer_type=entry.get("type"),
                allocations=self._places(entry["allocations"]),
            )
        )

    def _each(self, entry: Json, key: str, count: int) -> list[str | None] | None:
        if key not in entry:
            return None
        if entry[key] is None:
            return [None] * count
        with located(key):
            return list(one_for_each(entry[key], count))

    def _node_of(self, host: str | None) -> str | None:
        """Return the node of a host that has one only; else its nodes are named as it is."""
        if host is None:
            return None
        found = self._nodes.get(host, [])
        return found[0] if len(found) == 1 else host

    def _given(self, entry: Json) -> Json:
        given = {name: entry[key] for key, name in _PLAIN.items() if key in entry}
        given |= {name: entry[name] for name in _SAME if name in entry}
        if "server_group" in entry:
            with located("server_group"):
                given["server_group"] = self._group(entry["server_group"])
        if "flavor" in entry:
            with located("flavor"):
                given["flavor"] = self._flavor(entry["flavor"])
        if "image" in entry:
            with located("image"):
                given["image"] = self._image(entry["image"])
        return given

    def _group(self, given: str | None) -> str | None:
        if given is None or given in self._draft.server_groups:
            return given
        found = [uuid for uuid, one in self._draft.server_groups.items() if one.name == given]
        if len(found) != 1:
            there = f"are {len(found)} server groups" if found else "is no server group"
            raise Misfit(f"there {there} {given}")
        return found[0]

    def _flavor(self, given: Json | str | None) -> Json | None:
        if given is None:
            return None
        if isinstance(given, dict):
            return plain_flavor(given, self._rows)
        found = self._flavors.get(given)
        if found is None:
            raise Misfit(f"there is no flavor {given}")
        return {**found.flavor.as_document(), "id": ITS_ROW}

    def _image(self, given: Json | str | None) -> Json | None:
        if given is None:
            return None
        if isinstance(given, dict):
            return given
        found = [given] if given in self._draft.images else self._images.get(given, [])
        if len(found) != 1:
            there = f"are {len(found)} images" if found else "is no image"
            raise Misfit(f"there {there} {given}")
        return self._draft.images[found[0]].image.as_request_image()

    def _put(self, uuid: str, changes: Json, entry: Json) -> None:
        before = self._draft.instances.get(uuid)
        instance = replace(before or _blank(uuid), **changes)
        self._draft.instances[uuid] = instance
        held = self._draft.consumers.get(uuid)
        stays = before is not None and all(
            getattr(before, name) == getattr(instance, name) for name in ("host", "node", "flavor")
        )
        owner = self._owner(instance, entry, held)
        if "allocations" in entry:
            with located("allocations"):
                self._hold(replace(owner, allocations=self._places(entry["allocations"])))
        elif not stays:
            self._hold(replace(owner, allocations=default_allocations(self._draft, instance)))
        elif held is not None:
            self._hold(replace(owner, allocations=held.allocations))

    def _owner(self, instance: Instance, entry: Json, held: ConsumerState | None) -> ConsumerState:
        """Return whose the allocations of an instance are: its own, unless something is told."""
        told = entry.get("consumer")
        if told is None and held is not None and not entry.keys() & {"project", "user"}:
            return held
        told = told or {}
        owner = usual_owner(self._draft, instance)
        return replace(
            owner,
            project_id=told.get("project", owner.project_id),
            user_id=told.get("user", owner.user_id),
            consumer_type=told.get("type", owner.consumer_type),
            generation=None if held is None else held.generation,
        )

    def _places(self, given: Mapping[str, Amounts]) -> Held:
        found: Held = {}
        for text, amounts in given.items():
            with located(text):
                uuid = self._draft.provider_of(text)
                if uuid in found:
                    raise Misfit("the provider is there twice")
                if not amounts:
                    raise Misfit("nothing is allocated here")
                self._draft.know_classes(amounts)
                found[uuid] = amounts
        return found

    def _hold(self, consumer: ConsumerState) -> None:
        before = self._draft.before.consumers.get(consumer.uuid)
        if before is not None:
            consumer = replace(consumer, generation=before.generation)
        if consumer.allocations:
            self._draft.consumers[consumer.uuid] = consumer
        else:
            self._draft.consumers.pop(consumer.uuid, None)


def check_holdings(draft: Draft) -> None:
    """Raise :class:`Misfit` where a consumer holds of a class that its provider has not.

    It is told at the entry of who comes to hold it, else of the provider that loses the class.
    """
    for one in draft.consumers.values():
        for number, amounts in one.allocations.items():
            provider = draft.providers.get(number)
            lacking = amounts.keys() - (provider.inventories if provider else amounts).keys()
            if provider and lacking:
                _refuse_lacking(draft, one, provider, min(lacking))


def _refuse_lacking(
    draft: Draft, one: ConsumerState, provider: ProviderState, resource_class: str
) -> None:
    told = draft.told_at
    instance = draft.instances.get(one.uuid)
    who = one.uuid if instance is None else instance.display_name
    holder = told.get(("instance", one.uuid)) or told.get(("consumer", one.uuid))
    if holder and draft.before.consumers.get(one.uuid) != one:
        what = f"{who} cannot hold {resource_class} of provider {provider.name}, which has none"
        raise Misfit(what, *holder, "allocations")
    if place := told.get(("provider", provider.uuid)):
        what = f"provider {provider.name} cannot lose its {resource_class}, of which {who} has some"
        raise Misfit(what, *place, "inventories")


def usual_owner(draft: Draft, instance: Instance) -> ConsumerState:
    """Return the consumer that an instance is where nothing else is told."""
    return ConsumerState(
        uuid=instance.uuid,
        project_id=instance.project_id or draft.terms.nobody[0],
        user_id=instance.user_id or draft.terms.nobody[1],
        consumer_type=INSTANCE_TYPE,
        allocations={},
    )


def default_allocations(draft: Draft, instance: Instance) -> Held:
    """Return what an instance holds where nothing is told: what its flavor asks of its node."""
    node = draft.node_names.get((instance.host or "", instance.node or ""))
    if node is None or node not in draft.providers or not instance.flavor:
        return {}
    try:
        asked = draft.terms.asked(Flavor.from_document(instance.flavor))
    except Invalid:
        return {}
    return {node: asked} if asked else {}


def _names(entry: Json) -> tuple[list[str] | None, list[str]]:
    """Return the names of an entry's instances, if it tells any, and their uuids."""
    names, uuids = entry.get("name"), entry.get("uuid")
    if uuids is None:
        if names is None:
            raise Misfit("an instance has a 'uuid' or a 'name'")
        return names, [derived("instance", name) for name in names]
    if names is not None:
        with located("name"):
            names = list(one_for_each(names, len(uuids)))
    return names, uuids


def _blank(uuid: str) -> Instance:
    return Instance(
        uuid=uuid,
        host=None,
        node=None,
        project_id=None,
        user_id=None,
        display_name=uuid,
        vm_state="active",
        task_state=None,
        flavor=None,
        image=None,
        server_group=None,
        decision_uuid=None,
    )
