# SPDX-License-Identifier: Apache-2.0
"""Domain exceptions. ``api.request`` has the table of HTTP statuses."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

#: The mark in the middle of a shortened text.
_CUT = " [...] "


class Error(Exception):
    """An error for users, with a message and a machine-readable code."""

    code = "placement.undefined_code"

    def __init__(
        self,
        detail: str,
        *,
        code: str | None = None,
        extra: Mapping[str, Any] | None = None,
        json_path: str | None = None,
        source: str | None = None,
        fault: Mapping[str, Any] | None = None,
    ) -> None:
        """Create an error, optionally with another code and extra error fields.

        ``json_path`` is the JSON path of the invalid value: the message is "detail (at json_path)".
        If ``source`` also names the value, the message is "source: detail". ``fault`` is the error
        as data (``schemas.validation.FaultData``), for front ends that render it in another way.
        """
        if json_path is not None:
            fault = {"problem": detail, "path": json_path, **(fault or {})}
            detail = f"{detail} (at {json_path})" if source is None else f"{source}: {detail}"
        super().__init__(detail)
        self.detail = detail
        self.extra = dict(extra or {})
        self.fault = fault
        if code is not None:
            self.code = code


class Invalid(Error):
    """The request is invalid: a malformed body, parameter, uuid or name."""


class BadValue(Invalid):
    """A query parameter has an invalid value."""

    code = "placement.query.bad_value"


class UnknownResourceClassOrTrait(Invalid):
    """Resource classes or traits of these names do not exist."""

    def __init__(self, detail: str, *, kind: str = "name", names: Sequence[str] = ()) -> None:
        super().__init__(detail)
        self.kind = kind
        self.names = tuple(names)


class TooComplex(Invalid):
    """The request needs more work than the operator allows."""

    code = "placement.query.too_complex"


class Forbidden(Error):
    """The caller lacks a permission."""


class NotFound(Error):
    """A resource does not exist."""


class Conflict(Error):
    """The request is valid, but conflicts with the current state."""


class ConcurrentUpdate(Conflict):
    """The state has changed since it was read, so that a retry may succeed."""

    code = "placement.concurrent_update"


class Overtaken(ConcurrentUpdate):
    """Another writer changed rows between two statements of a transaction."""


class InUse(Conflict):
    """The resource cannot be changed or deleted: another resource needs it."""


class Duplicate(Conflict):
    """The name or uuid already exists."""

    code = "placement.duplicate_name"


class CapacityExceeded(Conflict):
    """The requested amounts exceed the capacity of a provider's inventory."""


class NoValidHost(Conflict):
    """No host passes (``extra['funnel']``). ``result``: ``RequestResult``."""

    code = "scheduler.no_valid_host"
    result: Any = None


class ManagedByNova(Conflict):
    """The resource is read from nova's databases, and only nova changes it."""

    code = "scheduler.read_from_nova"


class NotExamined(Conflict):
    """The value of ``field`` in the report of a host is unknown.

    A host state raises this error for such an attribute. It is no :class:`AttributeError`, because
    plugins treat a missing attribute as a value.
    """

    def __init__(self, field: str, detail: str = "") -> None:
        super().__init__(detail or f"{field} of the host is unknown")
        self.field = field


class LimitExceeded(Error):
    """The request would exceed a limit on the number or size of resources."""


class NotSupported(Error):
    """The requested information is not available for this resource."""


class PluginFailed(Error):
    """A filter, weigher or request filter raised an exception."""

    code = "scheduler.filter_error"


class Unavailable(Error):
    """The database is locked, unreachable or not prepared, or a service fails."""


class CommitUnknown(Unavailable):
    """The connection was lost during COMMIT, and the result is unknown."""


class NotAdopted(Unavailable):
    """The database belongs to OpenStack placement and has not been adopted."""


class NewerSchema(Unavailable):
    """The database has the schema of a newer release."""


class ServiceFailed(Unavailable):
    """Another service, of this type, does not answer according to its API."""

    def __init__(self, detail: str, *, service: str = "placement") -> None:
        super().__init__(detail)
        self.service = service


class ConfigurationError(Error):
    """An option, section or configuration file is wrong.

    ``place`` is the file and line, or None. ``problem`` is the message without the place.
    ``option`` is the option at fault, as ``[group] name``, or empty. ``parts`` are the errors that
    the message joins, if there are several.
    """

    parts: Sequence["ConfigurationError"] = ()

    def __init__(self, problem: str, *, place: Any = None, option: str = "") -> None:
        super().__init__(f"{place}: {problem}" if place else problem)
        self.problem, self.place, self.option = problem, place, option


@contextmanager
def relocate_errors(old: str, new: str) -> Iterator[None]:
    """Replace the JSON path ``old`` by ``new`` in errors about a request."""
    try:
        yield
    except (Invalid, NotFound, Conflict, PluginFailed) as error:
        if old == new:
            raise
        is_located = old in error.detail
        error.detail = error.detail.replace(old, new) if is_located else f"{new}: {error.detail}"
        error.args = (error.detail,)
        if error.fault is not None and str(error.fault.get("path")).startswith(old):
            error.fault = {**error.fault, "path": error.fault["path"].replace(old, new, 1)}
        raise


def format_error(error: Error) -> str:
    """Return the message of an error, and of its database error if missing."""
    database_error = getattr(error.__cause__, "orig", None)
    text = format_one_line(error)
    if database_error is None or (
        database_error.args and str(database_error.args[-1]).partition("\n")[0] in text
    ):
        return text
    return f"{text}: {format_one_line(database_error)}"


def format_one_line(failure: BaseException | str) -> str:
    """Return a failure's text in a single line, or else its class name."""
    return " ".join(str(failure).split()) or type(failure).__name__


def shorten(text: str, max_length: int) -> str:
    """Shorten ``text`` to at most ``max_length`` characters, marking the gap."""
    if len(text) <= max_length:
        return text
    half = (max_length - len(_CUT)) // 2
    return f"{text[:half]}{_CUT}{text[-half:]}"


def escape_unprintable(text: str) -> str:
    """Escape characters that could forge a log line or control a terminal."""
    if text.isprintable():
        return text
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode() for char in text
    )
