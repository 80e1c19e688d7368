"""The changes of a question, and how they are read from its JSON (contract, section 4)."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from placement_sched.errors import Invalid
from placement_sched.limits import MAX_HOST_COPIES
from placement_sched.model.document import Json
from placement_sched.model.names import suggested
from placement_sched.schemas.changes import KINDS


@dataclass(frozen=True, slots=True, kw_only=True)
class DrainedHosts:
    """Hosts that get no new instances; in a plan their instances move away."""

    at: str
    hosts: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RemovedHosts:
    """Hosts that are not there, nor their providers; in a plan their instances move first."""

    at: str
    hosts: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AddedHosts:
    """So many more hosts like one, empty and enabled, in the same aggregates."""

    at: str
    like: str
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedInventory:
    """Another inventory of a host, or of the provider of its tree that is named.

    None leaves a value as it is; a total of 0 takes the inventory away.
    """

    at: str
    host: str
    resource_class: str
    provider: str | None = None
    total: int | None = None
    reserved: int | None = None
    allocation_ratio: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedAggregate:
    """An aggregate with other hosts and metadata; metadata of None go."""

    at: str
    name: str
    add_hosts: tuple[str, ...]
    remove_hosts: tuple[str, ...]
    metadata: Mapping[str, str | None]


#: One change; ``at`` is the JSON path of what it says.
CloudChange = DrainedHosts | RemovedHosts | AddedHosts | ChangedInventory | ChangedAggregate


def changes_from(
    documents: Sequence[Json] | None, at: str = "$.changes"
) -> tuple[CloudChange, ...]:
    """Return the changes that JSON objects say, which the schema of changes accepts.

    Raises :class:`Invalid` with the JSON path of a key that is not known, and the nearest that is,
    and where more hosts are added than one question may add.
    """
    changes = tuple(
        _change(key, value, f"{at}[{position}]")
        for position, document in enumerate(documents or ())
        for key, value in document.items()
    )
    copies = sum(one.count for one in changes if isinstance(one, AddedHosts))
    if copies > MAX_HOST_COPIES:
        raise Invalid(f"{copies} hosts are added, at most {MAX_HOST_COPIES} can be", at=at)
    return changes


def _change(key: str, value: Any, at: str) -> CloudChange:
    path = f"{at}.{key}"
    match key:
        case "drain":
            return DrainedHosts(at=path, hosts=_each_once(value))
        case "remove":
            return RemovedHosts(at=path, hosts=_each_once(value))
        case "add":
            return AddedHosts(at=path, like=value["like"], count=value.get("count", 1))
        case "inventory":
            if not value.keys() & {"total", "reserved", "allocation_ratio"}:
                raise Invalid("nothing is changed: give a total, for one", at=path)
            return ChangedInventory(at=path, **value)
        case "aggregate":
            return ChangedAggregate(
                at=path,
                name=value["name"],
                add_hosts=_each_once(value.get("add_hosts", ())),
                remove_hosts=_each_once(value.get("remove_hosts", ())),
                metadata=value.get("metadata", {}),
            )
    raise Invalid(f"there is no change {key!r}{suggested('change', key, KINDS, alike=0.4)}", at=at)


def _each_once(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(names))
