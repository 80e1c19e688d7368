"""Merges a decoded fleet file into the cloud; hosts and instances have modules of their own."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from placement_sched.db.transaction import Connection
from placement_sched.errors import Forbidden, TooMuch
from placement_sched.model.document import Json
from placement_sched.model.flavor import Flavor
from placement_sched.model.host_aggregate import ZONE_KEY
from placement_sched.model.image import StoredImage, Viewer
from placement_sched.model.server_group import ANTI_AFFINITY, ServerGroup
from placement_sched.operations.fleet import cloud, merge_hosts
from placement_sched.operations.fleet.cloud import Draft, State, Terms, derived_uuid
from placement_sched.operations.fleet.merge_instances import OWNER, InstanceMerger, check_holdings
from placement_sched.operations.fleet.schema import VERSION, read_file
from placement_sched.operations.images import SETTABLE, check_allowed, check_settable
from placement_sched.schemas.formats import DocumentError, located
from placement_sched.store.compute import flavors

_ADMINISTRATOR = Viewer(project_id="", is_admin=True, may_give=frozenset({"public", "community"}))


def _merge_flavor(draft: Draft, entry: Json) -> None:
    flavors, name = draft.after.flavors, entry["name"]
    named = [flavorid for flavorid, one in flavors.items() if one.flavor.name == name]
    flavorid = _identify(draft, "flavor", entry, "id", named, name, unique=True)
    before = flavors.get(flavorid)
    if before is None:
        _require(entry, "flavor", "vcpus", "memory_mb")
        before = cloud.FlavorState(flavor=Flavor(flavorid=flavorid))
    given = {key: value for key, value in entry.items() if key not in {"id", "projects"}}
    flavors[flavorid] = cloud.FlavorState(
        flavor=replace(before.flavor, **given),
        projects=frozenset(entry.get("projects", before.projects)),
    )


def _identify(
    draft: Draft, kind: str, entry: Json, key: str, named: list[str], *names: str, unique: bool
) -> str:
    """Return the id that an entry gives, that of the only object named so, or a derived one."""
    if key not in entry and len(named) > 1:
        what = f"{len(named)} {kind}s are named {names[0]}; select one by its {key!r}"
        raise DocumentError(what)
    uuid = str(entry.get(key) or (named[0] if named else derived_uuid(kind, *names)))
    draft.note_entry(kind, uuid)
    if unique and named and uuid not in named:
        raise DocumentError(f"the name {names[0]} is already used by {kind} {named[0]}")
    return uuid


def _require(entry: Json, kind: str, *keys: str) -> None:
    for key in keys:
        if key not in entry:
            what = f"{key!r} is required, as there is no {kind} {entry['name']} yet"
            raise DocumentError(what)


def _merge_image(draft: Draft, entry: Json) -> None:
    images, name = draft.after.images, entry.get("name")
    if name is None and "id" not in entry:
        raise DocumentError("an image has an 'id' or a 'name'")
    named = [uuid for uuid, one in images.items() if one.name == name]
    uuid = _identify(draft, "image", entry, "id", named, str(name), unique=False)
    before = images.get(uuid) or StoredImage(uuid=uuid)
    _check_properties(entry.get("properties", {}))
    given = {key: value for key, value in entry.items() if key != "id"}
    if "tags" in given:
        given["tags"] = frozenset(given["tags"])
    image = replace(before, **given)
    try:
        check_allowed(before, image, _ADMINISTRATOR)
    except TooMuch as error:
        raise DocumentError(error.detail) from None
    images[uuid] = image


def _check_properties(names: Iterable[str]) -> None:
    for name in names:
        what = f"{name!r} is an attribute of every image, not a property"
        try:
            check_settable(name)
        except Forbidden as error:
            what = error.detail
        else:
            if name not in SETTABLE:
                continue
        raise DocumentError(what, "properties", name, at_key=True)


def _merge_server_group(draft: Draft, entry: Json) -> None:
    """Put a server group, known by its uuid or its name (in a project, if one is given)."""
    groups, name, project = draft.after.server_groups, entry["name"], entry.get("project")
    named = [
        uuid
        for uuid, one in groups.items()
        if one.name == name and ("project" not in entry or one.project_id == project)
    ]
    names = (name, project or "")
    uuid = _identify(draft, "server group", entry, "uuid", named, *names, unique=False)
    before = groups.get(uuid)
    if before is None:
        _require(entry, "server group", "policy")
        before = ServerGroup(uuid=uuid, policy=entry["policy"])
    given = {OWNER.get(key, key): value for key, value in entry.items()}
    if entry.get("policy", before.policy) != before.policy:
        given.setdefault("rules", {})
    group = replace(before, **given)
    if group.rules and group.policy != ANTI_AFFINITY:
        raise DocumentError(f"only the policy {ANTI_AFFINITY} has rules")
    groups[uuid] = group


def _merge_aggregate(draft: Draft, entry: Json) -> None:
    aggregates, name = draft.after.aggregates, entry["name"]
    named = [uuid for uuid, one in aggregates.items() if one.name == name]
    uuid = _identify(draft, "aggregate", entry, "uuid", named, name, unique=True)
    before = aggregates.get(uuid) or cloud.new_aggregate(uuid, name)
    metadata = dict(entry.get("metadata", before.metadata))
    if ZONE_KEY in entry:
        if metadata.get(ZONE_KEY, entry[ZONE_KEY]) != entry[ZONE_KEY] and "metadata" in entry:
            raise DocumentError("metadata name a different availability zone", ZONE_KEY)
        metadata[ZONE_KEY] = entry[ZONE_KEY]
    hosts = frozenset(entry.get("hosts", before.hosts))
    aggregates[uuid] = replace(before, name=name, metadata=metadata, hosts=hosts)


def _check_aggregate(draft: Draft, entry: Json) -> None:
    """Check that the hosts of an entry are in the file or the cloud."""
    known = {host for host, _ in (*draft.node_uuids, *draft.after.services)}
    if unknown := sorted(set(entry.get("hosts", ())) - known):
        raise DocumentError(f"there is no host {unknown[0]}", "hosts")


def merge(connection: Connection, document: Any, terms: Terms) -> tuple[State, State]:
    """Return the cloud as it is, and as a document makes it; raises :class:`DocumentError`."""
    file = read_file({} if document is None else document)
    if file.get("version", VERSION) != VERSION:
        raise DocumentError(f"only version {VERSION} of the file format is known", "version")
    draft = Draft(cloud.read_state(connection, terms.unknown_owner), terms)

    def merge_section(section: str, merge_entry: Callable[[Draft, Json], None]) -> None:
        for index, entry in enumerate(file.get(section, ())):
            draft.entry = (section, index)
            with located(section, index):
                merge_entry(draft, entry)

    with located("resource_classes"):
        draft.add_classes(file.get("resource_classes", ()))
    with located("traits"):
        draft.add_traits(file.get("traits", ()))
    merge_section("flavors", _merge_flavor)
    merge_section("images", _merge_image)
    merge_section("server_groups", _merge_server_group)
    merge_section("aggregates", _merge_aggregate)
    merge_section("hosts", merge_hosts.merge_hosts)
    merge_section("services", merge_hosts.merge_services)
    merge_section("providers", merge_hosts.merge_providers)
    merge_section("aggregates", _check_aggregate)
    # Instances need all that is above.
    merger = InstanceMerger(draft, flavors.ids_by_flavorid(connection))
    merge_section("instances", merger.merge_instances)
    merge_section("allocations", merger.merge_allocations)
    check_holdings(draft)
    merge_hosts.settle_roots(draft)
    return draft.before, draft.after
