"""Merges the entries of instances and of other consumers' allocations."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from placement_sched.errors import Invalid
from placement_sched.model.document import Json
from placement_sched.model.flavor import Flavor
from placement_sched.model.instance import Instance
from placement_sched.model.placement.allocation import INSTANCE_TYPE, Amounts, ConsumerClaim
from placement_sched.operations.fleet import cloud
from placement_sched.operations.fleet.cloud import Draft, derived_uuid
from placement_sched.operations.fleet.names import for_each
from placement_sched.scheduler.groups import amounts_of
from placement_sched.schemas.formats import DocumentError, located

Allocations = Mapping[str, Amounts]

#: The fields by the keys of an entry that give them as they are: of owners, consumers, instances.
OWNER = {"project": "project_id", "user": "user_id"}
_CONSUMER = {**OWNER, "type": "consumer_type"}
PLAIN = {**OWNER, "vm_state": "vm_state", "task_state": "task_state"}
#: The fields of an instance of which nothing is given.
BLANK = Instance(
    uuid="",
    display_name="",
    vm_state="active",
    **dict.fromkeys(("host", "node", "project_id", "user_id", "task_state")),
    **dict.fromkeys(("flavor", "image", "server_group", "decision_uuid")),
)


class InstanceMerger:
    """Merges instances and allocations into a draft that has everything else already."""

    def __init__(self, draft: Draft, rows: Mapping[str, Any]) -> None:
        """Take the draft, and the numbers of stored flavors' rows by flavorid."""
        self._draft, self._rows = draft, rows
        self._nodes = draft.after.nodes_by_host()
        flavors = draft.after.flavors
        self._flavors = {one.flavor.name: one for one in flavors.values()} | flavors
        self._images: dict[str, list[str]] = defaultdict(list)
        for uuid, image in draft.after.images.items():
            self._images[image.name or ""].append(uuid)

    def merge_instances(self, draft: Draft, entry: Json) -> None:
        """Put the instances of an entry."""
        names, uuids = _names(entry)
        hosts = for_each(entry, "host", len(uuids), alone=True)
        nodes = for_each(entry, "node", len(uuids), alone=True)
        given = {name: entry[key] for key, name in PLAIN.items() if key in entry}
        finders = {"server_group": self._server_group, "flavor": self._flavor, "image": self._image}
        for key, find in finders.items():
            if key in entry:
                with located(key):
                    given[key] = None if entry[key] is None else find(entry[key])
        for index, uuid in enumerate(uuids):
            draft.note_entry("instance", uuid)
            changes = dict(given)
            if "name" in entry:
                changes["display_name"] = names[index]
            if "host" in entry:
                changes["host"] = hosts[index]
                changes["node"] = only_node(self._nodes, hosts[index])
            if "node" in entry:
                changes["node"] = nodes[index]
            self._put(uuid, changes, entry)

    def merge_allocations(self, draft: Draft, entry: Json) -> None:
        """Put what a consumer holds that is not an instance."""
        uuid = entry["consumer"]
        draft.note_entry("consumer", uuid)
        owner = {name: entry[key] for key, name in _CONSUMER.items() if key in entry}
        self._put_consumer(
            ConsumerClaim(consumer=uuid, allocations=self._allocations(entry), **owner)
        )

    def _server_group(self, given: str) -> str:
        groups = self._draft.after.server_groups
        named = [uuid for uuid, one in groups.items() if one.name == given]
        return _only("server group", given, [given] if given in groups else named)

    def _flavor(self, given: Json | str) -> Json:
        if isinstance(given, dict):
            return cloud.plain_flavor(given, self._rows)
        if given not in self._flavors:
            raise DocumentError(f"there is no flavor {given}")
        return {**self._flavors[given].flavor.as_document(), "id": cloud.FLAVOR_ROW}

    def _image(self, given: Json | str) -> Json:
        if isinstance(given, dict):
            return given
        images = self._draft.after.images
        uuid = _only("image", given, [given] if given in images else self._images.get(given, []))
        return images[uuid].as_request_image()

    def _put(self, uuid: str, changes: Json, entry: Json) -> None:
        after = self._draft.after
        before = after.instances.get(uuid)
        blank = replace(BLANK, uuid=uuid, display_name=uuid)
        instance = after.instances[uuid] = replace(before or blank, **changes)
        held = after.consumers.get(uuid)
        stays = before is not None and all(
            getattr(before, name) == getattr(instance, name) for name in ("host", "node", "flavor")
        )
        owner = self._owner(instance, entry, held)
        if "allocations" in entry:
            allocations = self._allocations(entry)
        elif not stays:
            allocations = default_allocations(self._draft, instance)
        elif held is not None:
            allocations = held.allocations
        else:
            return
        self._put_consumer(replace(owner, allocations=allocations))

    def _owner(self, instance: Instance, entry: Json, held: ConsumerClaim | None) -> ConsumerClaim:
        if "consumer" not in entry and held is not None and not {"project", "user"} & entry.keys():
            return held
        given = {_CONSUMER[key]: value for key, value in entry.get("consumer", {}).items()}
        return replace(default_consumer(self._draft, instance), **given)

    def _allocations(self, entry: Json) -> Allocations:
        draft = self._draft
        found: dict[str, Amounts] = {}
        for text, amounts in entry["allocations"].items():
            with located("allocations", text):
                uuid = text if text in draft.after.providers else draft.provider_uuids.get(text)
                if uuid is None:
                    raise DocumentError(f"there is no provider {text}")
                if uuid in found:
                    raise DocumentError("the provider is listed twice")
                if not amounts:
                    raise DocumentError("no resources are given")
                draft.add_classes(amounts)
                found[uuid] = amounts
        return found

    def _put_consumer(self, consumer: ConsumerClaim) -> None:
        if consumer.allocations:
            self._draft.after.consumers[consumer.consumer] = consumer
        else:
            self._draft.after.consumers.pop(consumer.consumer, None)


def check_holdings(draft: Draft) -> None:
    """Raise :class:`DocumentError` where a consumer holds of a class that its provider lacks.

    It is at the entry of the consumer if that changes, else of the provider that loses the class.
    """
    for one in draft.after.consumers.values():
        for uuid, amounts in one.allocations.items():
            provider = draft.after.providers.get(uuid)
            if provider and (lacking := amounts.keys() - provider.inventories.keys()):
                _refuse_lacking(draft, one, provider, min(lacking))


def _refuse_lacking(
    draft: Draft, one: ConsumerClaim, provider: cloud.ProviderState, resource_class: str
) -> None:
    instance = draft.after.instances.get(one.consumer)
    who = one.consumer if instance is None else instance.display_name
    holder = draft.after.entry_of_consumer(one.consumer)
    if holder and draft.before.consumers.get(one.consumer) != one:
        what = f"{who}: provider {provider.name} has no inventory of {resource_class}"
        raise DocumentError(what, *holder, "allocations")
    if place := draft.after.entry_of("provider", provider.uuid):
        what = f"provider {provider.name}: the inventory of {resource_class} is in use by {who}"
        raise DocumentError(what, *place, "inventories")


def default_consumer(draft: Draft, instance: Instance) -> ConsumerClaim:
    """Return the consumer that an instance is unless the file gives another owner."""
    return ConsumerClaim(
        consumer=instance.uuid,
        project_id=instance.project_id or draft.terms.unknown_owner[0],
        user_id=instance.user_id or draft.terms.unknown_owner[1],
        consumer_type=INSTANCE_TYPE,
        allocations={},
    )


def default_allocations(draft: Draft, instance: Instance) -> Allocations:
    """Return what an instance holds by default: what its flavor requests, of its node."""
    node = draft.node_uuids.get((instance.host or "", instance.node or ""))
    if node is None or node not in draft.after.providers or not instance.flavor:
        return {}
    try:
        flavor = Flavor.from_document(instance.flavor)
        requested = dict(amounts_of(flavor, boot_from_volume=False))
    except Invalid:
        return {}
    return {node: requested} if requested else {}


def only_node(nodes: Mapping[str, list[str]], host: str | None) -> str | None:
    """Return the node of a host that has one; of several, or none, the one named as the host."""
    found = nodes.get(host or "", [])
    return found[0] if len(found) == 1 else host


def _only(noun: str, given: str, found: list[str]) -> str:
    if not found:
        raise DocumentError(f"there is no {noun} {given}")
    if len(found) > 1:
        raise DocumentError(f"there are {len(found)} {noun}s {given}")
    return found[0]


def _names(entry: Json) -> tuple[Sequence[str], Sequence[str]]:
    if "uuid" in entry:
        return for_each(entry, "name", len(entry["uuid"]), alone=True), entry["uuid"]
    if "name" not in entry:
        raise DocumentError("an instance has a 'uuid' or a 'name'")
    return entry["name"], [derived_uuid("instance", name) for name in entry["name"]]
