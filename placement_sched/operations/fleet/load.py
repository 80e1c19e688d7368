# SPDX-License-Identifier: Apache-2.0
"""Loads of fleet files, the changes they make, and dumps."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

from placement_sched.config.settings import Settings
from placement_sched.db.transaction import Connection, Database
from placement_sched.errors import ConcurrentUpdate
from placement_sched.model.clock import Clock
from placement_sched.model.compute_node import COMPUTE_BINARY, ComputeNode, Service
from placement_sched.model.provider import ConsumerClaim
from placement_sched.model.retry import retrying
from placement_sched.operations.fleet.apply import StepProgress, apply
from placement_sched.operations.fleet.cloud import State, changed_entries, read_state
from placement_sched.operations.fleet.dump import document_of
from placement_sched.operations.fleet.merge import merge
from placement_sched.operations.fleet.yaml_file import YamlFile, to_yaml
from placement_sched.operations.nova_cloud import check_sections
from placement_sched.store import change_counters

NEW, CHANGED, GONE = "new", "changed", "gone"

#: Fields that are omitted from differences.
_HIDDEN = frozenset({"uuid", "generation", "version", "created_at", "updated_at", "id"})
#: The change counter whose row serializes loads.
SUBJECT = "fleet"
#: Number of progress reports of a load.
STEPS = 9
#: Maximum number of attempts to load a file after concurrent updates.
_MAX_ATTEMPTS = 10


@dataclass(frozen=True, slots=True)
class Difference:
    """An object that is new, changed or gone.

    ``what`` is the change, ``kind`` the kind of object, and ``details`` has field, old and new
    value of a changed object.
    """

    what: str
    kind: str
    name: str
    details: tuple[tuple[str, Any, Any], ...] = ()


def _node_name(node: ComputeNode) -> str:
    host, name = node.host, node.hypervisor_hostname
    return host if host == name else f"{host} {name}"


#: Field of the state, noun and name of objects, in the order of sections.
_KINDS: Mapping[str, tuple[str, Callable[[Any], str]]] = {
    "flavors": ("flavor", lambda thing: thing.flavor.name),
    "images": ("image", lambda thing: thing.name or thing.uuid),
    "server_groups": ("server group", lambda thing: thing.name),
    "nodes": ("host", _node_name),
    "services": ("service", lambda thing: f"{thing.binary} of {thing.host}"),
    "providers": ("provider", lambda thing: thing.name),
    "aggregates": ("aggregate", lambda thing: thing.name),
    "instances": ("instance", lambda thing: thing.display_name),
}


def differences(before: State, after: State) -> tuple[Difference, ...]:
    """Return the differences of two clouds, without parts of new hosts."""
    classes = sorted(after.resource_classes - before.resource_classes)
    changes = [Difference(NEW, "resource class", name) for name in classes]
    changes += [Difference(NEW, "trait", name) for name in sorted(after.traits - before.traits)]
    implied = _find_implied(before, after)

    def consumer_name(consumer: ConsumerClaim) -> str:
        instance = after.instances.get(consumer.consumer)
        return consumer.consumer if instance is None else instance.display_name

    kind = "allocations of"
    for field, (noun, name_of) in {**_KINDS, "consumers": (kind, consumer_name)}.items():
        former = getattr(before, field)
        for key, thing in changed_entries(former, getattr(after, field)).items():
            if key in former:
                details = tuple(_compare("", former[key], thing))
                changes.append(Difference(CHANGED, noun, name_of(thing), details))
            elif (field, key) not in implied:
                changes.append(Difference(NEW, noun, name_of(thing)))
    gone = [thing for uuid, thing in before.consumers.items() if uuid not in after.consumers]
    return (*changes, *(Difference(GONE, kind, consumer_name(thing)) for thing in gone))


def _find_implied(before: State, after: State) -> set[tuple[str, Any]]:
    new = {uuid: node for uuid, node in after.nodes.items() if uuid not in before.nodes}
    services = {(node.host, COMPUTE_BINARY) for node in new.values()}
    plain = {
        ("services", key)
        for key in services
        if (service := after.services.get(key)) and not (service.disabled or service.forced_down)
    }
    return plain | {("providers", uuid) for uuid in new}


def _compare(place: str, old: Any, new: Any) -> Iterator[tuple[str, Any, Any]]:
    if old == new:
        return
    if isinstance(old, Service):
        old, new = old._asdict(), new._asdict()
    if is_dataclass(old) and is_dataclass(new):
        for field in fields(old):
            if field.name not in _HIDDEN or not place:
                under = field.name if not place else f"{place}.{field.name}"
                shown_path = "" if field.name in {"flavor", "image"} and not place else under
                yield from _compare(shown_path, getattr(old, field.name), getattr(new, field.name))
    elif isinstance(old, Mapping) and isinstance(new, Mapping):
        for key in sorted({*old, *new}, key=str):
            yield from _compare(f"{place}.{key}".lstrip("."), old.get(key), new.get(key))
    else:
        yield place, _as_json(old), _as_json(new)


def _as_json(value: Any) -> Any:
    if isinstance(value, frozenset | set | tuple):
        return [_as_json(item) for item in (value if isinstance(value, tuple) else sorted(value))]
    if isinstance(value, Mapping):
        return {str(key): _as_json(item) for key, item in value.items()}
    if is_dataclass(value):
        names = [
            item.name for item in fields(value) if item.name not in {"created_at", "updated_at"}
        ]
        return {name: _as_json(getattr(value, name)) for name in names}
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)


class _DryRunError(Exception):
    """Rolls back a dry run. Its arguments are the differences."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """Loads and dumps of the cloud of a database."""

    database: Database
    settings: Settings
    clock: Clock

    def load(
        self, text: str, name: str, *, dry_run: bool, progress: StepProgress
    ) -> tuple[Difference, ...]:
        """Load the text of the file ``name`` in one transaction and return the changes.

        A dry run is rolled back. Raises :class:`Invalid` with line and column for a wrong file or a
        change of nova's objects, and :class:`Conflict` if the present cloud prevents a change.
        """
        progress("the file")
        file = YamlFile(text, name)

        def work(connection: Connection) -> tuple[Difference, ...]:
            change_counters.bump(connection, SUBJECT)
            progress("the present cloud")
            changes = file.read(lambda document: self._load(connection, document, progress))
            if dry_run:
                raise _DryRunError(*changes)
            return changes

        try:
            return retrying(lambda: self.database.write(work), _MAX_ATTEMPTS)
        except _DryRunError as done:
            return done.args
        except ConcurrentUpdate:
            message = f"concurrent updates; gave up after {_MAX_ATTEMPTS} attempts"
            raise ConcurrentUpdate(message) from None

    def _load(
        self, connection: Connection, document: Any, progress: StepProgress
    ) -> tuple[Difference, ...]:
        check_sections(document, self.settings)
        draft = merge(connection, document, self.settings, self.clock())
        apply(connection, draft, progress)
        return differences(draft.before, draft.after)

    def dump(self) -> str:
        """Return a fleet file that recreates this cloud in an empty database."""
        with self.database.snapshot() as connection:
            state = read_state(connection, self.settings.unknown_owner)
        return to_yaml(document_of(state, self.settings, self.clock()))
