"""Nova's versioned objects as primitives: which are known, how one is read, how one is made.

A primitive is a JSON object: name, namespace, version and changes of the versioned object, and its
data, in which a field that is not set is absent and a set is a list. Nova raises the minor number
of a version for what an older reader may leave out, and the major number for what it cannot read.

Source: oslo.versionedobjects' documentation, nova's developer documentation ("Versioned objects"),
and nova 34 observed.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from placement_sched import errors
from placement_sched.errors import Invalid
from placement_sched.model.aggregates import HostAggregate
from placement_sched.model.document import Document, Json
from placement_sched.model.names import canonical

#: The newest version that nova 34 has of each object. Those of nova 27 have the same major
#: numbers.
NEWEST: Mapping[str, str] = {
    "Aggregate": "1.3",
    "CellMapping": "1.1",
    "ComputeNode": "1.19",
    "ComputeNodeList": "1.17",
    "Destination": "1.4",
    "Flavor": "1.2",
    "ImageMeta": "1.8",
    "ImageMetaProps": "1.44",
    "Instance": "2.8",
    "InstanceGroup": "1.11",
    "InstanceList": "2.6",
    "InstanceNUMACell": "1.6",
    "InstanceNUMATopology": "1.3",
    "InstancePCIRequest": "1.4",
    "InstancePCIRequests": "1.1",
    "NUMATopologyLimits": "1.1",
    "NetworkMetadata": "1.0",
    "NetworkRequest": "1.3",
    "NetworkRequestList": "1.1",
    "RequestGroup": "1.3",
    "RequestLevelParams": "1.1",
    "RequestSpec": "1.15",
    "SchedulerLimits": "1.0",
    "SchedulerRetries": "1.1",
    "SecurityGroup": "1.2",
    "SecurityGroupList": "1.1",
    "Selection": "1.1",
}
NAMESPACE = "nova"
_NAME, _NAMESPACE, _VERSION, _DATA, _CHANGES = (
    f"nova_object.{key}" for key in ("name", "namespace", "version", "data", "changes")
)

_BEYOND = 2**63
#: The most characters of a name or id: columns of nova and placement take no more.
MAX_SHORT_TEXT = 255

#: Returns what the value of a field means. The text is the field's place, for an error.
FieldReader = Callable[[Any, str], Any]


class UnreadableObject(Invalid):
    """What should be a primitive is not one, or one of its fields has a wrong value.

    The place is named, and no value shown: a request has the passwords of cells in it.
    """


class UnknownObject(UnreadableObject):
    """A primitive is of an object, or of a namespace, that is not read here."""


class UnknownVersion(UnreadableObject):
    """A primitive is of a major version that is not read here.

    ``name``, ``version`` and ``supported`` are those of the object.
    """

    def __init__(self, name: str, version: str, place: str) -> None:
        self.name, self.version, self.supported = name, version, NEWEST[name]
        super().__init__(
            f"{place}: version {version} of {name} is not supported, the newest supported version "
            f"is {self.supported}"
        )


@dataclass(frozen=True, slots=True)
class ObjectType:
    """One versioned object: its name, the fields that are read of it, and those it must have.

    A field may be given another name in what is read, by ``renamed``.
    """

    name: str
    fields: Mapping[str, FieldReader]
    needed: tuple[str, ...] = ()
    renamed: Mapping[str, str] = field(default_factory=dict)

    def __call__(self, primitive: Any, place: str) -> Json | None:
        """Return what a field holds that may be null."""
        return None if primitive is None else self.read(primitive, place)

    def read(self, primitive: Any, place: str) -> Json:
        """Return the fields that are known and set.

        Raises :class:`UnreadableObject` naming the ``place`` of what is wrong.
        """
        data = self._data(primitive, place)
        found = {
            self.renamed.get(name, name): reader(data[name], f"{place}.{name}")
            for name, reader in self.fields.items()
            if name in data
        }
        for name in self.needed:
            if found.get(name) is None:
                raise UnreadableObject(f"{place}: {self.name} has no {name}")
        return found

    def is_newer(self, primitive: Mapping[str, Any]) -> bool:
        """Return whether a primitive, which was read, has a newer version than nova 34's."""
        return _numbers(primitive[_VERSION]) > _numbers(NEWEST[self.name])

    def _data(self, primitive: Any, place: str) -> Mapping[str, Any]:
        """Return the data of a primitive that is of this object and of a known major version."""
        if not isinstance(primitive, dict):
            raise UnreadableObject(f"{place} must be {self.name}, not {_noun(primitive)}")
        name, namespace, version, data = (
            primitive.get(key) for key in (_NAME, _NAMESPACE, _VERSION, _DATA)
        )
        if not isinstance(name, str) or not isinstance(version, str) or not isinstance(data, dict):
            raise UnreadableObject(f"{place} must be {self.name}, not an object without a version")
        if namespace != NAMESPACE or name not in NEWEST:
            raise UnknownObject(f"{place}: unsupported object type {namespace}.{name}")
        if name != self.name:
            raise UnreadableObject(f"{place} must be {self.name}, not {name}")
        numbers, known = _numbers(version), _numbers(NEWEST[name])
        if len(numbers) < 2 or numbers[0] != known[0]:
            raise UnknownVersion(name, version, place)
        return data


def primitive_of(name: str, data: Json) -> Json:
    """Return the primitive of a new object, in the version of nova 34."""
    return {
        _NAME: name,
        _NAMESPACE: NAMESPACE,
        _VERSION: NEWEST[name],
        _DATA: data,
        _CHANGES: sorted(data),
    }


def a_list(item: FieldReader) -> FieldReader:
    """Return the reader of a list or null; its items are not null."""

    def read(value: Any, place: str) -> list[Any] | None:
        if value is None:
            return None
        if not isinstance(value, list):
            raise _wrong(value, "a list", place)
        found = [item(one, f"{place}[{position}]") for position, one in enumerate(value)]
        if None in found:
            raise UnreadableObject(f"{place}[{found.index(None)}] must not be null")
        return found

    return read


def a_set(item: FieldReader) -> FieldReader:
    """Return the reader of a set or null: a list in order, which is the same for equal sets."""
    read_list = a_list(item)

    def read(value: Any, place: str) -> list[Any] | None:
        found = read_list(value, place)
        return None if found is None else sorted(found)

    return read


def a_dict(values: FieldReader, *, nulls: bool = False) -> FieldReader:
    """Return the reader of a dictionary with free keys, or null; its values are null if allowed."""

    def read(value: Any, place: str) -> Json | None:
        if value is None:
            return None
        if not isinstance(value, dict):
            raise _wrong(value, "an object", place)
        found = {key: values(one, f"{place}.{key}") for key, one in value.items()}
        if not nulls and (empty := next((key for key in found if found[key] is None), None)):
            raise UnreadableObject(f"{place}.{empty} must not be null")
        return found

    return read


def a_list_object(name: str, item: ObjectType) -> FieldReader:
    """Return the reader of one of nova's list objects, or null: the list of its items."""
    whole = ObjectType(name, {"objects": a_list(item.read)})

    def read(value: Any, place: str) -> list[Any] | None:
        found = whole(value, place)
        return None if found is None else found.get("objects") or []

    return read


def text(value: Any, place: str) -> str | None:
    """Return a string or null."""
    if value is None or isinstance(value, str):
        return value
    raise _wrong(value, "a string", place)


def short_text(value: Any, place: str) -> str | None:
    """Return a string that a column of nova takes, or null."""
    checked = text(value, place)
    if checked is not None and len(checked) > MAX_SHORT_TEXT:
        raise UnreadableObject(
            f"{place} has {len(checked)} characters; at most {MAX_SHORT_TEXT} are allowed"
        )
    return checked


def integer(value: Any, place: str) -> int | None:
    """Return an integer of 64 bits at most, or null."""
    if value is not None and (not isinstance(value, int) or isinstance(value, bool)):
        raise _wrong(value, "an integer", place)
    if value is not None and not -_BEYOND <= value < _BEYOND:
        raise UnreadableObject(f"{place} must be an integer of 64 bits at most")
    return value


def number(value: Any, place: str) -> float | None:
    """Return a number or null."""
    if value is None or (isinstance(value, int | float) and not isinstance(value, bool)):
        return value
    raise _wrong(value, "a number", place)


def boolean(value: Any, place: str) -> bool | None:
    """Return a boolean or null."""
    if value is None or isinstance(value, bool):
        return value
    raise _wrong(value, "a boolean", place)


def anything(value: Any, place: str) -> Any:  # noqa: ARG001 - as every reader
    """Return the value, whatever it is."""
    return value


def time(value: Any, place: str) -> datetime | None:
    """Return a time or null, as naive UTC."""
    written = text(value, place)
    if written is None:
        return None
    try:
        read = datetime.fromisoformat(written)
    except ValueError:
        raise UnreadableObject(f"{place} is not a time") from None
    return read if read.tzinfo is None else read.astimezone(UTC).replace(tzinfo=None)


def _numbers(version: str) -> tuple[int, ...]:
    """Return the numbers of a version; none where it is not one."""
    try:
        return tuple(map(int, version.split(".")))
    except ValueError:
        return ()


_NOUNS: Mapping[type, str] = {
    bool: "a boolean",
    int: "an integer",
    float: "a number",
    str: "a string",
    list: "a list",
    dict: "an object",
    type(None): "null",
}


def _noun(value: Any) -> str:
    return _NOUNS.get(type(value), type(value).__name__)


def _wrong(value: Any, wanted: str, place: str) -> UnreadableObject:
    return UnreadableObject(f"{place} must be {wanted}, not {_noun(value)}")


#: What nova's users read where hosts could have been given by placement and none was chosen.
_NOT_ENOUGH = "There are not enough hosts available."


class RemoteFailure(Exception):
    """An exception that a client of nova's makes again from its name and ``kwargs``."""

    def __init__(self, message: str, **kwargs: Any) -> None:
        super().__init__(message)
        self.kwargs: Mapping[str, Any] = kwargs


def _known_to_nova(name: str, module: str = "nova.exception") -> type[RemoteFailure]:
    """Return an exception that clients take for the one of this name in nova's environment."""
    return type(name, (RemoteFailure,), {"__module__": module})


#: The request failed for a reason that has no class of its own.
NOVA_EXCEPTION = _known_to_nova("NovaException")
#: No host can take the request. A server expects it, and does not log it as a fault.
NO_VALID_HOST = _known_to_nova("NoValidHost")
#: An instance could not be given its allocations.
ALLOCATION_UPDATE_FAILED = _known_to_nova("AllocationUpdateFailed")
_OF_OBJECTS = "oslo_versionedobjects.exception"
#: An argument is an object that is not known, or of a major version that is not.
UNSUPPORTED_OBJECT = _known_to_nova("UnsupportedObjectError", _OF_OBJECTS)
INCOMPATIBLE_VERSION = _known_to_nova("IncompatibleObjectVersion", _OF_OBJECTS)


def over_rpc(error: errors.Error, instance_uuids: Sequence[str] = ()) -> Exception:
    """Return the exception to raise to a client of nova's for an error of ours.

    A request that cannot be is one without a valid host, as it is where placement refuses what
    nova asks for it. So is one for which the database does not answer, as where placement does not
    answer nova-scheduler; the reason is not for users. ``instance_uuids`` are those of the call.
    """
    detail = errors.sentence(error)
    match error:
        case errors.NoValidHost():
            return no_valid_host(reason_of(error.extra.get("funnel") or {}))
        case UnknownVersion():
            named = {"objname": error.name, "objver": error.version, "supported": error.supported}
            return INCOMPATIBLE_VERSION(detail, **named)
        case UnknownObject():
            return UNSUPPORTED_OBJECT(detail)
        case UnreadableObject():
            return ValueError(detail)
        case errors.ConcurrentUpdate() | errors.Forbidden() | errors.Invalid() | errors.NotFound():
            return no_valid_host(detail)
        case errors.Unavailable():
            # No other does conductor take without harm to a running server.
            return no_valid_host("")
        case errors.Conflict():
            consumers = ", ".join(instance_uuids)
            message = f"Failed to update allocations for consumer {consumers}. Error: {detail}"
            return ALLOCATION_UPDATE_FAILED(message, consumer_uuid=consumers, error=detail)
    return NOVA_EXCEPTION(detail)


def no_valid_host(reason: str) -> RemoteFailure:
    """Return the exception that says, with its reason, that no host can take the request."""
    return NO_VALID_HOST(f"No valid host was found. {reason}", reason=reason)


def reason_of(funnel: Document) -> str:
    """Return why there is no valid host, in as few words as nova has for its users.

    A request filter says why it refused the request; that placement has no candidates is said by
    no reason at all.
    """
    refusals = [one["refusal"] for one in funnel.get("request_filters", ()) if one.get("refusal")]
    if refusals:
        return f"Scheduling failed: {refusals[0]}"
    candidates = funnel.get("allocation_candidates") or {}
    return "" if candidates.get("hosts") == 0 and candidates.get("query") else _NOT_ENOUGH


_AGGREGATE = ObjectType(
    "Aggregate",
    {
        "id": integer,
        **dict.fromkeys(("uuid", "name"), text),
        "hosts": a_list(text),
        "metadata": a_dict(text),
        **dict.fromkeys(("created_at", "updated_at"), time),
    },
    needed=("id", "uuid", "name"),
)


def aggregate_of(primitive: Any, place: str = "aggregate") -> HostAggregate:
    """Return the host aggregate of an Aggregate; hosts and metadata that are not set are empty.

    Raises :class:`~placement_sched.nova.objects.UnreadableObject` naming the place.
    """
    return _made(_AGGREGATE.read(primitive, place))


def aggregates_of(primitives: Any) -> list[HostAggregate]:
    """Return the host aggregates that ``update_aggregates`` names: a list of them, or one."""
    listed = primitives if isinstance(primitives, list) else [primitives]
    return [aggregate_of(one, f"aggregates[{at}]") for at, one in enumerate(listed)]


def _made(found: dict[str, Any]) -> HostAggregate:
    metadata = found.pop("metadata", None) or {}
    return HostAggregate(
        **{**found, "uuid": canonical(found["uuid"]), "hosts": frozenset(found.get("hosts") or ())},
        metadata=metadata,
    )
