"""Domain exceptions, one tree.

::

    Error                     every error a user may see
    +-- Invalid               the request is wrong in itself
    |   +-- BadValue          a parameter has a value that cannot be
    |   +-- UnknownNames      a resource class or trait is named that is not there
    |   +-- TooComplex        to answer it would take more work than the operator allows
    +-- Forbidden             the caller may not do this
    +-- NotFound              the thing named is not there
    +-- Conflict              the request is right, the state is against it
    |   +-- ConcurrentUpdate  the state changed meanwhile; a retry may succeed
    |   +-- InUse             the thing is needed by another
    |   +-- Duplicate         the name or uuid is taken
    |   +-- NoValidHost       no host can take the request
    |   +-- ReadFromNova      the thing is nova's, and changed there
    +-- TooMuch               more of a thing than one may have here
    +-- NotKnown              no source for the answer
    +-- PluginFailed          a filter, weigher or request filter raised
    +-- Unavailable           the database does not answer just now
    |   +-- CommitUnknown     whether a write was done is not known
    |   +-- NotAdopted        the database belongs to OpenStack placement alone
    |   +-- ServiceFailed     another service did not do what it was asked
    +-- ConfigurationError    an option or a file of the operator is wrong

What each means over HTTP stands in one table, ``placement_sched.api.response``.
"""

from collections.abc import Mapping, Sequence
from typing import Any


class Error(Exception):
    """An error that a user may see: one clear sentence and a machine-readable code."""

    code = "placement.undefined_code"

    def __init__(
        self,
        detail: str,
        *,
        code: str | None = None,
        extra: Mapping[str, Any] | None = None,
        at: str | None = None,
        fault: Mapping[str, Any] | None = None,
    ) -> None:
        """Keep the sentence, an error code that overrides the class's, and extra error fields.

        ``at`` is the JSON path of the offence, which is added to the sentence. ``fault`` is the
        offence as data (``schemas.wording.FaultData``), for front ends with words of their own.
        """
        if at is not None:
            fault = {"problem": detail, "path": at}
            detail = f"{detail} (at {at})"
        super().__init__(detail)
        self.detail = detail
        self.extra = dict(extra or {})
        self.fault = fault
        if code is not None:
            self.code = code


class Invalid(Error):
    """The request is wrong in itself: a malformed body, parameter, uuid or name."""


class BadValue(Invalid):
    """A query parameter has an invalid value."""

    code = "placement.query.bad_value"


class UnknownNames(Invalid):
    """Resource classes or traits are named that do not exist.

    ``kind`` says which of the two, ``names`` names them, so that the caller can report where the
    names came from.
    """

    def __init__(self, detail: str, *, kind: str = "name", names: Sequence[str] = ()) -> None:
        super().__init__(detail)
        self.kind = kind
        self.names = tuple(names)


class TooComplex(Invalid):
    """To answer the request would take more work than the operator allows."""

    code = "placement.query.too_complex"


class Forbidden(Error):
    """The caller may not do this."""


class NotFound(Error):
    """The thing named is not there."""


class Conflict(Error):
    """The request is right in itself, but the state is against it."""


class ConcurrentUpdate(Conflict):
    """The state changed meanwhile; the caller may read again and retry."""

    code = "placement.concurrent_update"


class InUse(Conflict):
    """The thing cannot go or change, because another needs it."""


class Duplicate(Conflict):
    """The name or uuid is already taken."""

    code = "placement.duplicate_name"


class CapacityExceeded(Conflict):
    """The amounts asked do not fit into the provider's inventory."""


class NoValidHost(Conflict):
    """No host can take the request; ``extra['funnel']`` has the reasons."""

    code = "scheduler.no_valid_host"


class ReadFromNova(Conflict):
    """The thing is read from nova's databases: it is changed in nova, not here."""

    code = "scheduler.read_from_nova"


class TooMuch(Error):
    """The request would make more of a thing, or a larger one, than there may be."""


class NotKnown(Error):
    """The kind of fact is supported, but not known for this thing."""


class PluginFailed(Error):
    """A filter, weigher or request filter raised; the detail names the class."""

    code = "scheduler.filter_error"


class Unavailable(Error):
    """The database is locked, absent or not prepared; asking again later may succeed."""


class CommitUnknown(Unavailable):
    """The connection was lost during COMMIT, and the database does not say whether it was done."""


class NotAdopted(Unavailable):
    """The database is one of OpenStack placement that an operator has not adopted (yet)."""


class NewerSchema(Unavailable):
    """The schema of the database is that of a newer release."""


class ServiceFailed(Unavailable):
    """Another service does not answer, or not as its API says; ``service`` is its type.

    Types are those of OpenStack's service catalogue: ``placement``, ``compute``, ``network``.
    """

    def __init__(self, detail: str, *, service: str = "placement") -> None:
        super().__init__(detail)
        self.service = service


class ConfigurationError(Error):
    """An option, section or file of the operator is wrong; the detail names it."""


def sentence(error: Error) -> str:
    """Return the error's sentence, and the message of the database unless it quotes that."""
    said = getattr(error.__cause__, "orig", None)
    text = one_line(error)
    if said is None or (said.args and str(said.args[-1]).partition("\n")[0] in text):
        return text
    return f"{text}: {one_line(said)}"


def one_line(failure: BaseException | str) -> str:
    """Return the text of a failure on one line; the name of its class where it has none."""
    return " ".join(str(failure).split()) or type(failure).__name__


def escaped(text: str) -> str:
    """Return ``text`` with what could forge another line, or steer a terminal, escaped.

    That is every line end, control character, mark of direction and half of a surrogate pair.
    """
    if text.isprintable():
        return text
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode() for char in text
    )
