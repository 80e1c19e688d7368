"""Errors as nova-conductor expects them over RPC.

oslo.messaging sends of an exception the name of its class and module, its arguments and its
``kwargs``. Its client makes the exception again where the module is one that nova allows:
``nova.exception`` and Python's own; of others it makes a ``RemoteError`` with the same text.

What becomes of the instance depends on the class. ``NoValidHost`` leaves one that was to be moved
where it is, and puts a new one into error with the reason as its fault. Source: nova 34 observed.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from placement_sched import errors
from placement_sched.model.document import Document
from placement_sched.nova.wire.objects import UnknownObject, UnknownVersion, UnreadableObject

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
