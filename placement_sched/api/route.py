"""A route: one method on one path over one window of versions, with all that guards it."""

from collections.abc import Callable
from dataclasses import dataclass

from placement_sched.api.call import Handler
from placement_sched.api.microversion import Version
from placement_sched.api.schema import Schemas

EVER = Version(0, 0)
NEVER = Version(999, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """A line of a face's route table.

    ``path`` is relative to the face (``/resource_providers/<uuid>``). ``policy`` is the rule that
    must hold before anything is looked up; None only with ``public``, which needs no token.
    Routes that share a path and a method are told apart by their version windows, or by
    ``action``: the one key of the request body that each of them answers to (nova's
    ``{"add_host": {...}}``). Outside ``since``..``until`` the route is 404. ``body`` set means
    that a JSON body of one of ``content_types`` is required; ``data`` means that the body is bytes
    of one of these types, of which the handler learns the number as ``call.body``, for nobody keeps
    them. ``query`` checks the query string.
    ``subject(services, **arguments)``, asked only where the body is at fault, raises
    :class:`NotFound` where what the path names is not there: then 404 is told rather than 400.
    ``statuses`` are the answers that the documentation promises, ``answer`` is the body of a
    success (None, or no schema at a version: it has none). Of the successes, those ``located``
    have the header Location, those ``dated`` tell when what they show last changed.
    """

    method: str
    path: str
    handler: Handler
    policy: str | None = None
    public: bool = False
    since: Version = EVER
    until: Version = NEVER
    action: str | None = None
    body: Schemas | None = None
    data: bool = False
    subject: Callable[..., None] | None = None
    query: Schemas | None = None
    content_types: tuple[str, ...] = ("application/json",)
    statuses: tuple[int, ...] = (200,)
    located: tuple[int, ...] = ()
    dated: tuple[int, ...] = (200,)
    answer: Schemas | None = None

    def serves(self, version: Version) -> bool:
        """Return whether this route is there for a request of ``version``."""
        return self.since <= version <= self.until
