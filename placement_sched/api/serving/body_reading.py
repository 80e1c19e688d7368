"""How the body of a request is read: whole, within bounds, and before the application answers.

A server that answers before it has read the body closes the connection under the client: the next
request of that connection fails, and of a large body the client loses the answer itself. So every
body is read first, also by routes that do not look at it. Under ``placement-sched serve`` the event
loop does this (``asgi.py``), with a deadline; under other WSGI servers :class:`BodyFirst` does,
on the thread that the server gave to the request.

A body above ``[api] max_request_body_size`` is read and dropped, up to ``DISCARDED`` bytes, so that
the 413 reaches the client.
"""

import asyncio
import sys
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from io import BytesIO
from typing import IO, Any, NamedTuple

from placement_sched.api.request_context import WSGI, StartResponse
from placement_sched.api.response import json_answer, plain_error

Receive = Callable[[], Awaitable[dict[str, Any]]]

#: Seconds within which a body is complete, or has at least brought the next ``STEP`` bytes.
PATIENCE = 10.0
#: Bytes; with ``PATIENCE`` the least rate of a large body: 64 KiB a second.
STEP = 640 * 2**10
#: Seconds for which at most the event loop reads a body that it drops.
DISCARDING = 30.0
#: A body of up to so many bytes is always taken; larger ones share the memory that is allowed.
SMALL = 64 * 2**10
#: The most bytes of a body above the limit that are read and dropped.
DISCARDED = 256 * 2**20
#: The environ key of the :class:`BodyRefusal` of a body that could not be read.
REFUSED = "placement_sched.body_refused"
#: How much is asked of a server's stream at once.
_PIECE = 2**18


class BodyRefusal(NamedTuple):
    """Why a body could not be read, as the client gets it."""

    status: HTTPStatus
    detail: str


INCOMPLETE = BodyRefusal(HTTPStatus.BAD_REQUEST, "The request body ended before it was complete.")
SLOW = BodyRefusal(HTTPStatus.REQUEST_TIMEOUT, "The request body did not arrive in time.")
FULL = BodyRefusal(
    HTTPStatus.SERVICE_UNAVAILABLE, "Too many large request bodies are in progress; retry later."
)
NO_LENGTH = BodyRefusal(HTTPStatus.LENGTH_REQUIRED, "The header Content-Length is required.")


class Whole(BytesIO):
    """A request body that has been read to its end."""


def complete(environ: dict[str, Any], data: bytes, amount: int) -> None:
    """Put a body that has been read into ``environ``, with its length in bytes.

    ``amount`` is more than ``data`` has where the body was above the limit and has been dropped.
    """
    environ["wsgi.input"] = Whole(data)
    environ["wsgi.input_terminated"] = True
    environ["CONTENT_LENGTH"] = str(amount)
    environ.pop("HTTP_TRANSFER_ENCODING", None)


@dataclass(slots=True)
class Body:
    """The body of a request, while and after it is read.

    ``amount`` counts all its bytes, ``held`` those that take of the memory for bodies; ``pieces``
    stay empty from when it is ``dropped``, with the ``refusal`` that the client gets. ``ended``
    says whether it was read to its end, so that the connection can be used again.
    """

    data: bytes = b""
    amount: int = 0
    held: int = 0
    refusal: BodyRefusal | None = None
    ended: bool = False
    dropped: bool = False
    pieces: list[bytes] = field(default_factory=list)


class Bodies:
    """Reads bodies on the event loop, and bounds the time and the memory that they take.

    ``most`` is the limit of one body, ``room`` that of all together in bytes; it is taken by those
    of more than ``SMALL`` bytes until :meth:`release`.
    """

    def __init__(self, most: int, room: int) -> None:
        self._most = most
        self._room = room

    async def read(self, environ: Mapping[str, Any], receive: Receive) -> Body:
        """Return the body of a request (``environ``), read to its end where its bounds allow."""
        length = None if "HTTP_TRANSFER_ENCODING" in environ else length_of(environ)
        body = Body(dropped=length is not None and length > self._most)
        # A client that asks before it sends is not to send what is too large.
        asks = environ.get("HTTP_EXPECT", "").lower() == "100-continue"
        if length is None or not body.dropped or not (asks or length > DISCARDED):
            body.ended = await self._fill(body, length, receive)
        body.data = b"".join(body.pieces)
        body.pieces.clear()
        if body.dropped and length is not None:
            body.amount = length
        return body

    def release(self, body: Body) -> None:
        """Give back the memory of a body whose request has been answered."""
        self._room += body.held

    async def _fill(self, body: Body, length: int | None, receive: Receive) -> bool:
        """Read a body of ``length`` bytes, None for unknown; return whether to its end."""
        now = asyncio.get_running_loop().time
        last, step = now() + DISCARDING, STEP
        try:
            async with asyncio.timeout_at(now() + PATIENCE) as deadline:
                while length is None or body.amount < length:
                    message = await receive()
                    self._add(body, message.get("body", b""))
                    if message["type"] == "http.disconnect":
                        self._drop(body, INCOMPLETE)
                        return False
                    if not message.get("more_body", False):
                        break
                    if body.amount > DISCARDED:
                        return False
                    if body.amount >= step:
                        step = body.amount + STEP
                        deadline.reschedule(now() + PATIENCE)
                    if body.dropped:
                        deadline.reschedule(min(last, deadline.when() or last))
        except TimeoutError:
            if not body.dropped:
                self._drop(body, SLOW)
            return False
        if length is not None and body.amount < length:
            self._drop(body, INCOMPLETE)
            return False
        return True

    def _add(self, body: Body, piece: bytes) -> None:
        body.amount += len(piece)
        if body.dropped:
            return
        more = body.amount - body.held if body.amount > SMALL else 0
        if body.amount > self._most:
            self._drop(body, None)
        elif more > self._room:
            self._drop(body, FULL)
        else:
            self._room -= more
            body.held += more
            body.pieces.append(piece)

    def _drop(self, body: Body, refusal: BodyRefusal | None) -> None:
        """Forget what has been read, and what may come."""
        self._room += body.held
        body.held = 0
        body.dropped = True
        body.refusal = refusal
        body.pieces.clear()


class BodyFirst:
    """A WSGI application that reads the body of each request before ``inner`` answers it."""

    def __init__(self, inner: WSGI, most: int) -> None:
        self._inner = inner
        self._most = most
        self._closes = _closes_unsaid()
        self._closes_unread = "uwsgi" in sys.modules

    def __call__(self, environ: dict[str, Any], start_response: StartResponse) -> Iterable[bytes]:
        """Answer one request."""
        ended = True
        if not isinstance(environ["wsgi.input"], Whole):
            try:
                ended = _read(environ, self._most)
            except Exception:  # noqa: BLE001 - each server has its own for a client that is gone
                environ[REFUSED] = INCOMPLETE
                ended = False
        # uwsgi closes the connection of a body that was not read, and does not say so either.
        if self._closes or (self._closes_unread and not ended):
            start_response = _closing(start_response)
        refusal: BodyRefusal | None = environ.get(REFUSED)
        if refusal is None:
            return self._inner(environ, start_response)
        body = plain_error(environ, refusal.status, refusal.detail)
        return json_answer(environ, start_response, refusal.status, body)


def _read(environ: dict[str, Any], most: int) -> bool:
    """Read the body that ``environ`` announces into it; return whether to its end."""
    length = None if "HTTP_TRANSFER_ENCODING" in environ else length_of(environ)
    if length is None and not environ.get("wsgi.input_terminated"):
        environ[REFUSED] = NO_LENGTH
        return False
    if length == 0:
        environ["wsgi.input"] = Whole()
        return environ.get("CONTENT_LENGTH", "") in {"", "0"}  # an invalid number hides a body
    data, amount = _taken(environ["wsgi.input"], length, most)
    if length is not None and amount < length <= most:
        environ[REFUSED] = INCOMPLETE
        return False
    complete(environ, data, length or amount)
    return (length or amount) <= DISCARDED


def length_of(environ: Mapping[str, Any]) -> int:
    """Return the announced length of a body, 0 for none or for an invalid one."""
    text: str = environ.get("CONTENT_LENGTH") or ""
    # Where a server lets something else by, the application refuses it.
    return int(text) if text.isascii() and text.isdigit() else 0


def _taken(stream: IO[bytes], length: int | None, most: int) -> tuple[bytes, int]:
    """Return a body (one above the limit: none of it), and the number of bytes that were read."""
    pieces: list[bytes] = []
    amount = 0
    if length is not None and length > DISCARDED:
        return b"", 0  # it is left unread
    end = DISCARDED + 1 if length is None else length
    while amount < end and (piece := stream.read(min(end - amount, _PIECE))):
        amount += len(piece)
        if (length or amount) <= most:
            pieces.append(piece)
        else:
            pieces.clear()
    return b"".join(pieces), amount


def _closes_unsaid() -> bool:
    """Return whether the server closes connections and does not say so: uwsgi's ``http-socket``."""
    options = {str(name) for name in getattr(sys.modules.get("uwsgi"), "opt", ())}
    return "http-socket" in options and "http11-socket" not in options


def _closing(start_response: StartResponse) -> StartResponse:
    """Return ``start_response`` so that the answer says that its connection closes."""

    def start(status: str, headers: list[tuple[str, str]], *rest: Any) -> Any:
        return start_response(status, [*headers, ("Connection", "close")], *rest)

    return start
