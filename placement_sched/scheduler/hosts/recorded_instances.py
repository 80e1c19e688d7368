"""The instances on a request's hosts, read only when a plugin looks at them.

Hosts may have tens of thousands of instances, and most requests ask for none: nothing is read for
them. What a request names itself (members of its server group, those of ``same_host``) is read
alone; only who wants to know all that is on a host has all of them read, for every host at once.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, KeysView, MutableMapping
from functools import cached_property
from typing import Any

from placement_sched.model.instance import HostInstance
from placement_sched.model.placement.allocation import canonical
from placement_sched.model.spec import RequestSpec

#: Reads instances by host or by uuid.
Read = Callable[[Collection[str]], Iterable[HostInstance]]

#: The scheduler hints that name instances.
HINTS = ("same_host", "different_host")


class RecordedInstances:
    """The instances on the hosts of one request; at most two statements, whatever is asked.

    ``named`` are uuids that the request names.
    """

    def __init__(
        self, hosts: Collection[str], named: Collection[str], *, by_hosts: Read, by_uuids: Read
    ) -> None:
        self._hosts = hosts
        self.named = frozenset(named)
        self._by_hosts = by_hosts
        self._by_uuids = by_uuids
        self._on: dict[str, InstancesOnHost] = {}

    @cached_property
    def of_named(self) -> dict[str | None, dict[str, HostInstance]]:
        """Return by host, then uuid, those instances that the request names."""
        return _sorted(self._by_uuids(self.named))

    @cached_property
    def everything(self) -> dict[str | None, dict[str, HostInstance]]:
        """Return by host, then uuid, all instances on the hosts of the request."""
        return _sorted(self._by_hosts(self._hosts))

    def on(self, host: str) -> "InstancesOnHost":
        """Return the instances on one host, for all its nodes, read when first looked at."""
        if host not in self._on:
            self._on[host] = InstancesOnHost(self, host)
        return self._on[host]


class InstancesOnHost(MutableMapping[str, HostInstance]):
    """The instances on one host by uuid; what is added stays with this mapping."""

    __slots__ = ("_added", "_host", "_recorded")

    def __init__(self, recorded: RecordedInstances, host: str) -> None:
        self._recorded = recorded
        self._host = host
        self._added: dict[str, HostInstance] = {}

    def __getitem__(self, uuid: str) -> HostInstance:
        return self._where(uuid)[uuid]

    def __setitem__(self, uuid: str, instance: HostInstance) -> None:
        self._added[uuid] = instance

    def __delitem__(self, uuid: str) -> None:
        """Take away what was added; a record stays."""
        del self._added[uuid]

    def __iter__(self) -> Iterator[str]:
        return iter(self._all | self._added)

    def __len__(self) -> int:
        return len(self._all | self._added)

    def __contains__(self, uuid: object) -> bool:
        return uuid in self._where(uuid)

    def keys(self) -> KeysView[str]:
        """Return the uuids; what they share with uuids of the request is known at once."""
        return _Uuids(self)

    def named_among(self, uuids: Collection[Any]) -> set[str] | None:
        """Return those of ``uuids`` that are here, or None where not all are the request's."""
        if not self._recorded.named.issuperset(uuids):
            return None
        return {uuid for here in (self._named, self._added) for uuid in here if uuid in uuids}

    def _where(self, uuid: object) -> dict[str, HostInstance]:
        """Return where to look for an instance: among those named, until all have been read."""
        if uuid in self._added:
            return self._added
        recorded = self._recorded
        alone = uuid in recorded.named and "everything" not in vars(recorded)
        return self._named if alone else self._all

    @property
    def _named(self) -> dict[str, HostInstance]:
        return self._recorded.of_named.get(self._host, {})

    @property
    def _all(self) -> dict[str, HostInstance]:
        return self._recorded.everything.get(self._host, {})


class _Uuids(KeysView[str]):
    """The uuids on one host."""

    _mapping: InstancesOnHost

    def __and__(self, other: Iterable[Any]) -> set[str]:
        asked = other if isinstance(other, (set, frozenset)) else set(other)
        here = self._mapping.named_among(asked)
        return super().__and__(asked) if here is None else here

    def __rand__(self, other: Iterable[Any]) -> set[Any]:
        return self & other


def named_by(spec: RequestSpec) -> frozenset[str]:
    """Return the uuids of the instances that a request names, its own among them."""
    members = spec.instance_group.members if spec.instance_group else ()
    hinted = (uuid for name in HINTS for uuid in spec.scheduler_hints.get(name, ()))
    return frozenset((*spec.instance_uuids, *members, *map(canonical, hinted)))


def _sorted(instances: Iterable[HostInstance]) -> dict[str | None, dict[str, HostInstance]]:
    found: dict[str | None, dict[str, HostInstance]] = {}
    for instance in instances:
        found.setdefault(instance.host, {})[instance.uuid] = instance
    return found
