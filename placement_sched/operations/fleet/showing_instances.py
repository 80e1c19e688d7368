"""Writes instances and allocations down."""

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import replace
from typing import Any
from uuid import UUID

from placement_sched.model.instance import Instance
from placement_sched.operations.fleet.patterns import escaped
from placement_sched.operations.fleet.showing_hosts import alike
from placement_sched.operations.fleet.state import ITS_ROW, ConsumerState, State
from placement_sched.operations.fleet.wanted import Draft, Terms, derived
from placement_sched.operations.fleet.wanted_instances import default_allocations, usual_owner
from placement_sched.operations.fleet.words import few, natural_key, short

Json = dict[str, Any]


def show_instances(state: State, terms: Terms) -> list[Json]:
    """Return the entries of instances."""
    writer = _Writer(state, terms)
    instances = sorted(
        state.instances.values(),
        key=lambda one: (natural_key(one.display_name), natural_key(one.host or ""), one.uuid),
    )
    found: list[Json] = []
    for entry, (names, uuids, hosts) in alike(
        (writer.entry(one), [one.display_name, one.uuid, one.host]) for one in instances
    ):
        shown: Json = {}
        told = [str(name) for name in names]
        if names != uuids:
            shown["name"] = few(told)
        if names == uuids or uuids != [derived("instance", name) for name in told]:
            shown["uuid"] = few([str(uuid) for uuid in uuids])
        places = [host for host in hosts if host is not None]
        if places:
            shown["host"] = few(places if len(set(places)) > 1 else places[:1])
        found.append(shown | entry)
    return found


def show_allocations(state: State) -> list[Json]:
    """Return the entries of consumers that are no instances."""
    places = _Places(state)
    return [
        {
            "consumer": short(uuid),
            **_owner(one),
            "allocations": places.shown(one.allocations),
        }
        for uuid, one in sorted(state.consumers.items())
        if uuid not in state.instances
    ]


def _owner(one: ConsumerState) -> Json:
    owner: Json = {"project": short(one.project_id), "user": short(one.user_id)}
    if one.consumer_type is not None:
        owner["type"] = one.consumer_type
    return owner


class _Places:
    """Writes allocations by the names of providers."""

    def __init__(self, state: State) -> None:
        self._names = {
            uuid: one.name if one.name and not _is_uuid(one.name) else uuid
            for uuid, one in state.providers.items()
        }

    def shown(self, allocations: Mapping[str, Mapping[str, int]]) -> Json:
        """Return amounts by class, by provider."""
        return {
            self._names.get(uuid, uuid): dict(sorted(amounts.items()))
            for uuid, amounts in sorted(
                allocations.items(), key=lambda item: self._names.get(item[0], "")
            )
        }


class _Writer:
    def __init__(self, state: State, terms: Terms) -> None:
        # Where a file is silent the same holds as where one is read.
        self._draft = Draft(state, terms)
        self._places = _Places(state)
        self._nodes: dict[str, list[str]] = defaultdict(list)
        for host, node in self._draft.node_names:
            self._nodes[host].append(node)
        self._images: dict[str, list[str]] = defaultdict(list)
        for uuid, image in state.images.items():
            self._images[image.image.name or ""].append(uuid)
        self._groups = Counter(one.name for one in state.server_groups.values())
        self._flavors = {one.flavor.name for one in state.flavors.values()}

    def entry(self, one: Instance) -> Json:
        """Return the entry of an instance without what it is called."""
        # Those on hosts are told together, and those on none.
        shown: Json = {} if one.host is not None else {"host": None}
        nodes = self._nodes.get(one.host or "", [])
        usual = nodes[0] if len(nodes) == 1 else one.host
        if one.node != (None if one.host is None else usual):
            shown["node"] = None if one.node is None else escaped(one.node)
        for key, value in (("project", one.project_id), ("user", one.user_id)):
            if value is not None:
                shown[key] = short(value)
        if one.vm_state != "active":
            shown["vm_state"] = one.vm_state
        if one.task_state is not None:
            shown["task_state"] = one.task_state
        if one.server_group is not None:
            shown["server_group"] = self._group(one.server_group)
        if one.flavor is not None:
            shown["flavor"] = self._flavor(one.flavor)
        if one.image is not None:
            shown["image"] = self._image(one.image)
        return shown | self._held(one)

    def _group(self, uuid: str) -> Any:
        """Return the name of a group where it tells which one is meant."""
        group = self._draft.server_groups.get(uuid)
        name = None if group is None else group.name
        if not name or _is_uuid(name) or self._groups[name] > 1:
            return uuid
        return short(name)

    def _flavor(self, document: Mapping[str, Any]) -> Any:
        if document.get("id") != ITS_ROW:
            return dict(document)
        flavorid = str(document["flavorid"])
        stored = self._draft.flavors[flavorid].flavor
        if {**stored.as_document(), "id": ITS_ROW} != document:
            return dict(document)
        # A name that is another's id would be taken for that one.
        taken = stored.name in self._draft.flavors and stored.name != flavorid
        return short(flavorid if taken else stored.name)

    def _image(self, document: Mapping[str, Any]) -> Any:
        uuid = str(document.get("id"))
        stored = self._draft.images.get(uuid)
        if stored is None or stored.image.as_request_image() != document:
            return dict(document)
        name = stored.image.name
        if name and len(self._images[name]) == 1 and not _is_uuid(name):
            return short(name)
        return uuid

    def _held(self, one: Instance) -> Json:
        """Return what an instance holds and whose it is, where that is not the usual."""
        held = self._draft.consumers.get(one.uuid)
        usual = default_allocations(self._draft, one)
        if held is None:
            return {"allocations": {}} if usual else {}
        shown: Json = {}
        if held.allocations != usual:
            shown["allocations"] = self._places.shown(held.allocations)
        owner = usual_owner(self._draft, one)
        if replace(held, allocations={}) != owner:
            shown["consumer"] = {
                "project": short(held.project_id),
                "user": short(held.user_id),
                "type": held.consumer_type,
            }
        return shown


def _is_uuid(text: str) -> bool:
    try:
        UUID(text)
    except ValueError:
        return False
    return True
