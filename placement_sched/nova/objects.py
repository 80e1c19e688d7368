# SPDX-License-Identifier: Apache-2.0
"""Readers and builders of nova's versioned objects as JSON primitives.

A primitive is the JSON form of a versioned object: its name, namespace, version and changed fields,
and its data without unset fields. A set becomes a list. Nova raises the minor version for
additions that older readers may ignore, and the major version for incompatible changes.

Source: oslo.versionedobjects' documentation, nova's developer documentation ("Versioned objects"),
and observed messages of nova 34.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from placement_sched import errors
from placement_sched.errors import Invalid
from placement_sched.model.document import Document, Json

#: The newest version of each object in nova 34. The versions of nova 27 have the same major
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

_INTEGER_LIMIT = 2**63
#: Maximum length of a name or id, as in the columns of nova and placement.
MAX_SHORT_TEXT = 255
#: Nova's text for users if placement had candidates, but no host was chosen.
_NOT_ENOUGH = "There are not enough hosts available."
_NOUNS: Mapping[type, str] = {
    bool: "a boolean",
    int: "an integer",
    float: "a number",
    str: "a string",
    list: "a list",
    dict: "an object",
    type(None): "null",
}

#: Checks and converts the value of a field. The string is the path of the field, for errors.
FieldReader = Callable[[Any, str], Any]


class UnreadableObject(Invalid):
    """A value that is not the expected primitive, or an invalid field.

    The message has the path of the field but not its value, which may contain passwords of cells.
    """


class UnknownObject(UnreadableObject):
    """A primitive with an unsupported object name or namespace."""


class UnknownVersion(UnreadableObject):
    """A primitive with an unsupported major version of an object."""

    def __init__(self, name: str, version: str, path: str) -> None:
        self.name, self.version, self.supported = name, version, NEWEST[name]
        super().__init__(
            f"{path}: version {version} of {name} is not supported, the newest supported version "
            f"is {self.supported}"
        )


@dataclass(frozen=True, slots=True)
class ObjectType:
    """A type of versioned objects, with its fields and required fields."""

    name: str
    fields: Mapping[str, FieldReader]
    required: tuple[str, ...] = ()

    def __call__(self, primitive: Any, path: str) -> Json | None:
        """Read the primitive like :meth:`read`, or return None for null."""
        return None if primitive is None else self.read(primitive, path)

    def read(self, primitive: Any, path: str) -> Json:
        """Read the supported fields, or raise UnreadableObject with the path."""
        data = self._get_data(primitive, path)
        result = {
            name: reader(data[name], f"{path}.{name}")
            for name, reader in self.fields.items()
            if name in data
        }
        for name in self.required:
            if result.get(name) is None:
                raise UnreadableObject(f"{path}: {self.name} has no {name}")
        return result

    def is_newer(self, primitive: Mapping[str, Any]) -> bool:
        """Return whether a readable primitive has a newer version than in nova 34."""
        return _parse_version(primitive[_VERSION]) > _parse_version(NEWEST[self.name])

    def _get_data(self, primitive: Any, path: str) -> Mapping[str, Any]:
        if not isinstance(primitive, dict):
            raise UnreadableObject(f"{path} must be {self.name}, not {_get_noun(primitive)}")
        name, namespace, version, data = (
            primitive.get(key) for key in (_NAME, _NAMESPACE, _VERSION, _DATA)
        )
        if not isinstance(name, str) or not isinstance(version, str) or not isinstance(data, dict):
            raise UnreadableObject(f"{path} must be {self.name}, not an object without a version")
        if namespace != NAMESPACE or name not in NEWEST:
            raise UnknownObject(f"{path}: unsupported object type {namespace}.{name}")
        if name != self.name:
            raise UnreadableObject(f"{path} must be {self.name}, not {name}")
        numbers, newest = _parse_version(version), _parse_version(NEWEST[name])
        if len(numbers) < 2 or numbers[0] != newest[0]:
            raise UnknownVersion(name, version, path)
        return data


def build_primitive(name: str, data: Json) -> Json:
    """Build the primitive of a new object, in the version of nova 34."""
    return {
        _NAME: name,
        _NAMESPACE: NAMESPACE,
        _VERSION: NEWEST[name],
        _DATA: data,
        _CHANGES: sorted(data),
    }


def make_list_reader(item: FieldReader) -> FieldReader:
    """Return a reader for null, or for a list whose items are not null."""

    def read(value: Any, path: str) -> list[Any] | None:
        if value is None:
            return None
        if not isinstance(value, list):
            raise _build_type_error(value, "a list", path)
        result = [item(each, f"{path}[{position}]") for position, each in enumerate(value)]
        if None in result:
            raise UnreadableObject(f"{path}[{result.index(None)}] must not be null")
        return result

    return read


def make_set_reader(item: FieldReader) -> FieldReader:
    """Return a reader that converts a set to a sorted list and keeps null."""
    read_list = make_list_reader(item)

    def read(value: Any, path: str) -> list[Any] | None:
        result = read_list(value, path)
        return None if result is None else sorted(result)

    return read


def make_dict_reader(values: FieldReader, *, nulls: bool = False) -> FieldReader:
    """Return a reader for null, or a dictionary with nulls if ``nulls``."""

    def read(value: Any, path: str) -> Json | None:
        if value is None:
            return None
        if not isinstance(value, dict):
            raise _build_type_error(value, "an object", path)
        result = {key: values(item, f"{path}.{key}") for key, item in value.items()}
        if not nulls and (empty := next((key for key in result if result[key] is None), None)):
            raise UnreadableObject(f"{path}.{empty} must not be null")
        return result

    return read


def make_list_object_reader(name: str, item: ObjectType) -> FieldReader:
    """Return a reader that converts nova's list object to a list of items."""
    whole = ObjectType(name, {"objects": make_list_reader(item.read)})

    def read(value: Any, path: str) -> list[Any] | None:
        result = whole(value, path)
        return None if result is None else result.get("objects") or []

    return read


def _make_reader(noun: str, *types: type) -> FieldReader:
    """Return a reader for these types or null, with booleans not as numbers."""

    def read(value: Any, path: str) -> Any:
        is_fitting = isinstance(value, types) and isinstance(value, bool) == (bool in types)
        if value is not None and not is_fitting:
            raise _build_type_error(value, noun, path)
        return value

    return read


text = _make_reader("a string", str)
number = _make_reader("a number", int, float)
boolean = _make_reader("a boolean", bool)
_any_integer = _make_reader("an integer", int)


def read_short_text(value: Any, path: str) -> str | None:
    """Read a string that fits a column of nova, or null."""
    checked: str | None = text(value, path)
    if checked is not None and len(checked) > MAX_SHORT_TEXT:
        raise UnreadableObject(
            f"{path} has {len(checked)} characters, but at most {MAX_SHORT_TEXT} are allowed"
        )
    return checked


def make_policy_reader(policies: Collection[str]) -> FieldReader:
    """Return a reader for null, or for a policy in ``policies``."""

    def read(value: Any, path: str) -> str | None:
        policy: str | None = text(value, path)
        if policy is not None and policy not in policies:
            raise UnreadableObject(
                f"{path}: unknown policy {policy!r}. Valid policies: {', '.join(policies)}"
            )
        return policy

    return read


def read_integer(value: Any, path: str) -> int | None:
    """Read an integer of 64 bits at most, or null."""
    checked: int | None = _any_integer(value, path)
    if checked is not None and not -_INTEGER_LIMIT <= checked < _INTEGER_LIMIT:
        raise UnreadableObject(f"{path} must be an integer of 64 bits at most")
    return checked


def read_anything(value: Any, path: str) -> Any:  # noqa: ARG001 - as every reader
    """Return the value unchanged."""
    return value


def _parse_version(version: str) -> tuple[int, ...]:
    """Parse a version into numbers, or return () if it is invalid."""
    try:
        return tuple(map(int, version.split(".")))
    except ValueError:
        return ()


def _get_noun(value: Any) -> str:
    return _NOUNS.get(type(value), type(value).__name__)


def _build_type_error(value: Any, expected: str, path: str) -> UnreadableObject:
    return UnreadableObject(f"{path} must be {expected}, not {_get_noun(value)}")


class RemoteFailure(Exception):
    """An exception that nova's client recreates from its name and ``kwargs``."""

    def __init__(self, message: str, **kwargs: Any) -> None:
        super().__init__(message)
        self.kwargs: Mapping[str, Any] = kwargs


def _define_exception(name: str, module: str = "nova.exception") -> type[RemoteFailure]:
    return type(name, (RemoteFailure,), {"__module__": module})


#: The request failed for a reason that has no other exception class.
NOVA_EXCEPTION = _define_exception("NovaException")
#: No host can take the request. This is expected, and not logged as a fault.
NO_VALID_HOST = _define_exception("NoValidHost")
#: The allocations of an instance could not be written.
ALLOCATION_UPDATE_FAILED = _define_exception("AllocationUpdateFailed")
_OBJECTS_MODULE = "oslo_versionedobjects.exception"
#: An argument has an unsupported object name, or an unsupported major version.
UNSUPPORTED_OBJECT = _define_exception("UnsupportedObjectError", _OBJECTS_MODULE)
INCOMPATIBLE_VERSION = _define_exception("IncompatibleObjectVersion", _OBJECTS_MODULE)


def to_remote_failure(error: errors.Error, instance_uuids: Sequence[str] = ()) -> Exception:
    """Convert an error to the exception that nova's client receives.

    An invalid request becomes NoValidHost, as if placement had rejected nova's query. If the
    database does not answer, the result is NoValidHost without a reason, as if placement did not
    answer nova-scheduler. ``instance_uuids`` are the instances of the call.
    """
    detail = errors.format_error(error)
    match error:
        case errors.NoValidHost():
            return build_no_valid_host(derive_reason(error.extra.get("funnel") or {}))
        case UnknownVersion():
            details = {"objname": error.name, "objver": error.version, "supported": error.supported}
            return INCOMPATIBLE_VERSION(detail, **details)
        case UnknownObject():
            return UNSUPPORTED_OBJECT(detail)
        case UnreadableObject():
            return ValueError(detail)
        case errors.ConcurrentUpdate() | errors.Forbidden() | errors.Invalid() | errors.NotFound():
            return build_no_valid_host(detail)
        case errors.Unavailable():
            # With any other exception, nova-conductor would harm a running server.
            return build_no_valid_host("")
        case errors.Conflict():
            consumers = ", ".join(instance_uuids)
            message = f"Failed to update allocations for consumer {consumers}. Error: {detail}"
            return ALLOCATION_UPDATE_FAILED(message, consumer_uuid=consumers, error=detail)
    return NOVA_EXCEPTION(detail)


def build_no_valid_host(reason: str) -> RemoteFailure:
    """Build the exception for a request without a valid host, with the reason."""
    return NO_VALID_HOST(f"No valid host was found. {reason}", reason=reason)


def derive_reason(funnel: Document) -> str:
    """Derive the reason for NoValidHost from a funnel, as short as nova's.

    If a request filter rejected the request, this is its reason. If placement has no candidates,
    the result is empty.
    """
    for report in funnel.get("request_filters", ()):
        if report.get("rejection"):
            return f"Scheduling failed: {report['rejection']}"
    candidates = funnel.get("allocation_candidates") or {}
    return "" if candidates.get("hosts") == 0 and candidates.get("query") else _NOT_ENOUGH
