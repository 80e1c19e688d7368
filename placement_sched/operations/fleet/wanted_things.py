"""Lays what a fleet file says of flavors, images, groups and aggregates over what there is."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from placement_sched.errors import TooMuch
from placement_sched.model.flavor import Flavor
from placement_sched.model.host_aggregate import ZONE_KEY
from placement_sched.model.image_change import check_allowed
from placement_sched.model.server_group import ANTI_AFFINITY, ServerGroup
from placement_sched.model.shape import Misfit
from placement_sched.model.stored_image import StoredImage, Viewer
from placement_sched.operations.fleet.entries import located
from placement_sched.operations.fleet.state import AggregateState, FlavorState, ImageState
from placement_sched.operations.fleet.wanted import Draft, derived

Json = dict[str, Any]

_SIZES = ("vcpus", "memory_mb")
_ADMINISTRATOR = Viewer(project_id="", is_admin=True, may_give=frozenset({"public", "community"}))


def lay_flavor(draft: Draft, entry: Json) -> None:
    """Make a flavor as an entry says; raises :class:`Misfit`."""
    name = entry["name"]
    ids = {one.flavor.name: flavorid for flavorid, one in draft.flavors.items()}
    flavorid = entry.get("id") or ids.get(name) or derived("flavor", name)
    draft.once("flavor", flavorid)
    if ids.get(name, flavorid) != flavorid:
        raise Misfit(f"the flavor {ids[name]} is named {name} already")
    before = draft.flavors.get(flavorid)
    if before is None:
        _refuse_lacking(entry, _SIZES, f"flavor {name}")
        before = FlavorState(flavor=Flavor(flavorid=flavorid))
    given = {key: value for key, value in entry.items() if key not in {"id", "projects"}}
    projects = entry.get("projects")
    draft.flavors[flavorid] = FlavorState(
        flavor=replace(before.flavor, **given),
        projects=before.projects if projects is None else frozenset(projects),
    )


def _refuse_lacking(entry: Json, keys: Iterable[str], what: str) -> None:
    for key in keys:
        if key not in entry:
            raise Misfit(f"{key!r} is required, as there is no {what} yet")


def lay_image(draft: Draft, entry: Json) -> None:
    """Make an image as an entry says; raises :class:`Misfit`."""
    uuid = entry.get("id") or _image_named(draft.images, entry.get("name"))
    draft.once("image", uuid)
    before = draft.images.get(uuid) or ImageState(image=StoredImage(uuid=uuid))
    given = {key: value for key, value in entry.items() if key not in {"id", "members"}}
    if "tags" in given:
        given["tags"] = frozenset(given["tags"])
    image = replace(before.image, **given)
    try:
        check_allowed(before.image, image, _ADMINISTRATOR)
    except TooMuch as more:
        raise Misfit(more.detail) from None
    draft.images[uuid] = ImageState(image=image, members=entry.get("members", before.members))


def _image_named(images: Mapping[str, ImageState], name: str | None) -> str:
    """Return the uuid of the image of this name, or a new one's."""
    if name is None:
        raise Misfit("an image has an 'id' or a 'name'")
    found = sorted(uuid for uuid, one in images.items() if one.image.name == name)
    if len(found) > 1:
        raise Misfit(f"{len(found)} images are named {name}; 'id' tells which is meant")
    return found[0] if found else derived("image", name)


def lay_server_group(draft: Draft, entry: Json) -> None:
    """Make a server group as an entry says; raises :class:`Misfit`."""
    uuid = entry.get("uuid") or _group_named(draft, entry)
    draft.once("server group", uuid)
    before = draft.server_groups.get(uuid)
    if before is None:
        _refuse_lacking(entry, ("policy",), f"server group {entry['name']}")
        before = ServerGroup(uuid=uuid, policy=entry["policy"])
    given = {_GROUP.get(key, key): value for key, value in entry.items() if key != "rules"}
    if entry.get("policy", before.policy) != before.policy and "rules" not in entry:
        given["rules"] = {}
    group = replace(before, **given, **({"rules": entry["rules"]} if "rules" in entry else {}))
    if group.rules and group.policy != ANTI_AFFINITY:
        raise Misfit(f"only the policy {ANTI_AFFINITY} has rules")
    draft.server_groups[uuid] = group


_GROUP = {"project": "project_id", "user": "user_id"}


def _group_named(draft: Draft, entry: Json) -> str:
    """Return the uuid of the group of a name (in a project, if one is told), or a new one's."""
    name, project = entry["name"], entry.get("project")
    found = [
        uuid
        for uuid, one in draft.server_groups.items()
        if one.name == name and ("project" not in entry or one.project_id == project)
    ]
    if len(found) > 1:
        raise Misfit(f"{len(found)} server groups are named {name}; 'uuid' tells which is meant")
    return found[0] if found else derived("server group", name, project or "")


def lay_aggregate(draft: Draft, entry: Json) -> None:
    """Make a host aggregate as an entry says; raises :class:`Misfit`."""
    name = entry["name"]
    uuids = {one.name: uuid for uuid, one in draft.aggregates.items()}
    uuid = entry.get("uuid") or uuids.get(name) or derived("aggregate", name)
    draft.once("aggregate", uuid)
    if uuids.get(name, uuid) != uuid:
        raise Misfit(f"the aggregate {uuids[name]} is named {name} already")
    before = draft.aggregates.get(uuid) or AggregateState(uuid=uuid, name=name)
    metadata = dict(entry.get("metadata", before.metadata))
    if "availability_zone" in entry:
        if metadata.get(ZONE_KEY, entry[ZONE_KEY]) != entry[ZONE_KEY] and "metadata" in entry:
            raise Misfit("the metadata tell another zone", ZONE_KEY)
        metadata[ZONE_KEY] = entry[ZONE_KEY]
    hosts = entry.get("hosts")
    draft.aggregates[uuid] = AggregateState(
        uuid=uuid,
        name=name,
        metadata=metadata,
        hosts=before.hosts if hosts is None else frozenset(hosts),
    )


def check_aggregate(draft: Draft, entry: Json) -> None:
    """Raise :class:`Misfit` where an entry has a host that is not there, in the file or before."""
    known = {host for host, _ in draft.node_names} | {host for host, _ in draft.services}
    if unknown := sorted(set(entry.get("hosts", ())) - known):
        with located("hosts"):
            raise Misfit(f"there is no host {unknown[0]}")
