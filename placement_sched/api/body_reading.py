"""How the body of a request is read: whole, within bounds, and before the application answers.

A server that answers before it has read the body closes the connection under the client: the next
request of that connection fails, and of a large body the client loses the answer itself. So every
body is read first, also by routes that do not look at it. Under ``placement-sched serve`` the event
loop does this (``api/asgi.py``), with a deadline; under other WSGI servers :class:`BodyFirst` does,
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

import orjson

from placement_sched.api.errors import RETRY_AFTER
from placement_sched.api.plain_errors import plain_error
from placement_sched.api.wsgi_types import WSGI, StartResponse

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
#: The environ key of the :class:`Refusal` of a body that could not be read.
REFUSED = "placement_sched.body_refused"
#: How much is asked of a server's stream at once.
_PIECE = 2**18


class Refusal(NamedTuple):
    """Why a body could not be read, as the client gets it."""

    status: HTTPStatus
    detail: str


INCOMPLETE = Refusal(HTTPStatus.BAD_REQUEST, "The request body ended before it was complete.")
SLOW = Refusal(HTTPStatus.REQUEST_TIMEOUT, "The request body did not arrive in time.")
FULL = Refusal(
    HTTPStatus.SERVICE_UNAVAILABLE,
    "The server holds as many large request bodies as it may. Send the request again later.",
)
NO_LENGTH = Refusal(
    HTTPStatus.LENGTH_REQUIRED,
    "This server passes on no request body without the header Content-Length.",
)


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


class Body(NamedTuple):
    """What became of the body of a request.

    ``amount`` counts all its bytes, ``held`` those that take of the memory for bodies; ``ended``
    says whether it was read to its end, so that the connection can be used again.
    """

    data: bytes
    amount: int
    held: int
    refusal: Refusal | None
    ended: bool


@dataclass(slots=True)
class _Reading:
    """A body while it is read: ``pieces`` stay empty from when it is ``dropped``."""

    dropped: bool
    amount: int = 0
    held: int = 0
    refusal: Refusal | None = None
    pieces: list[bytes] = field(default_factory=list)


class Bodies:
    """Reads bodies on the event loop, and bounds the time and the memory that they take.

    ``most`` is the limit of one body, ``room`` that of all together in bytes; it is taken by those
    of more than ``SMALL`` bytes until :meth:`release`. The others are bounded by the number of
    connections.
    """

    def __init__(self, most: int, room: int) -> None:
        self._most = most
        self._room = room

    async def read(self, environ: Mapping[str, Any], receive: Receive) -> Body:
        """Return the body of a request (``environ``), read to its end where its bounds allow."""
        length = None if "HTTP_TRANSFER_ENCODING" in environ else length_of(environ)
        above = length is not None and length > self._most
        if length is not None and above:
            # A client that asks before it sends is not to send it.
            asks = environ.get("HTTP_EXPECT", "").lower() == "100-continue"
            if asks or length > DISCARDED:
                return Body(b"", length, 0, None, ended=False)
        reading = _Reading(dropped=above)
        ended = await self._fill(reading, length, receive)
        if reading.dropped:
            amount = reading.amount if length is None else length
            return Body(b"", amount, 0, reading.refusal, ended)
        return Body(b"".join(reading.pieces), reading.amount, reading.held, None, ended)

    def release(self, body: Body) -> None:
        """Give back the memory of a body whose request has been answered."""
        self._room += body.held

    async def _fill(self, reading: _Reading, length: int | None, receive: Receive) -> bool:
        """Read a body of ``length`` bytes, None for unknown; return whether to its end."""
        now = asyncio.get_running_loop().time
        last, step = now() + DISCARDING, STEP
        try:
            async with asyncio.timeout_at(now() + PATIENCE) as deadline:
                while length is None or reading.amount < length:
                    message = await receive()
                    more = message.get("more_body", False)
                    self._add(reading, message.get("body", b""))
                    if message["type"] == "http.disconnect":
                        self._drop(reading, INCOMPLETE)
                        return False
                    if not more:
                        break
                    if reading.amount > DISCARDED:
                        return False
                    if reading.amount >= step:
                        step = reading.amount + STEP
                        deadline.reschedule(now() + PATIENCE)
                    if reading.dropped:
                        deadline.reschedule(min(last, deadline.when() or last))
        except TimeoutError:
            if not reading.dropped:
                self._drop(reading, SLOW)
            return False
        if length is not None and reading.amount < length:
            self._drop(reading, INCOMPLETE)
            return False
        return True

    def _add(self, reading: _Reading, piece: bytes) -> None:
        reading.amount += len(piece)
        if reading.dropped:
            return
        if reading.amount > self._most:
            self._drop(reading, None)
            return
        more = reading.amount - reading.held if reading.amount > SMALL else 0
        if more > self._room:
            self._drop(reading, FULL)
            return
        self._room -= more
        reading.held += more
        reading.pieces.append(piece)

    def _drop(self, reading: _Reading, refusal: Refusal | None) -> None:
        """Forget what has been read, and what may come."""
        self._room += reading.held
        reading.held = 0
        reading.dropped = True
        reading.refusal = refusal
        reading.pieces.clear()


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
        refusal = environ.get(REFUSED)
        if refusal is None:
            return self._inner(environ, start_response)
        return _refuse(environ, refusal, start_response)


def _read(environ: dict[str, Any], most: int) -> bool:
    """Read the body that ``environ`` announces into it; return whether to its end."""
    stream: IO[bytes] = environ["wsgi.input"]
    if "HTTP_TRANSFER_ENCODING" in environ:
        if not environ.get("wsgi.input_terminated"):
            environ[REFUSED] = NO_LENGTH
            return False
        data, amount = _until_end(stream, most)
    else:
        length = length_of(environ)
        if not length:
            environ["wsgi.input"] = Whole()
            return environ.get("CONTENT_LENGTH", "") in {"", "0"}  # what is no number hides a body
        data, amount = _as_announced(stream, length, most), length
        if len(data) < length <= most:
            environ[REFUSED] = INCOMPLETE
            return False
    complete(environ, data, amount)
    return amount <= DISCARDED


def length_of(environ: Mapping[str, Any]) -> int:
    """Return the announced length of a body, 0 for none or for what is no number."""
    text: str = environ.get("CONTENT_LENGTH") or ""
    # Where a server lets something else by, the application refuses it.
    return int(text) if text.isascii() and text.isdigit() else 0


def _as_announced(stream: IO[bytes], length: int, most: int) -> bytes:
    """Return a body of known length, or nothing of one that is above the limit."""
    if length > DISCARDED:
        return b""
    pieces: list[bytes] = []
    missing = length
    while missing and (piece := stream.read(min(missing, _PIECE))):
        missing -= len(piece)
        if length <= most:
            pieces.append(piece)
    return b"".join(pieces)


def _until_end(stream: IO[bytes], most: int) -> tuple[bytes, int]:
    """Return a body of unknown length and its length, without the bytes where it is too long."""
    pieces: list[bytes] = []
    amount = 0
    while amount <= DISCARDED and (piece := stream.read(_PIECE)):
        amount += len(piece)
        if amount <= most:
            pieces.append(piece)
        else:
            pieces.clear()
    return b"".join(pieces), amount


def _closes_unsaid() -> bool:
    """Return whether the server closes each connection after an answer that does not say so.

    uwsgi does with ``http-socket``. Other servers say it themselves.
    """
    options = {str(name) for name in getattr(sys.modules.get("uwsgi"), "opt", ())}
    return "http-socket" in options and "http11-socket" not in options


def _closing(start_response: StartResponse) -> StartResponse:
    """Return ``start_response`` so that the answer says that its connection closes."""

    def start(status: str, headers: list[tuple[str, str]], *rest: Any) -> Any:
        return start_response(status, [*headers, ("Connection", "close")], *rest)

    return start


def _refuse(
    environ: dict[str, Any], refusal: Refusal, start_response: StartResponse
) -> Iterable[bytes]:
    status = refusal.status
    content = orjson.dumps(plain_error(environ, status, refusal.detail))
    headers = [("Content-Type", "application/json"), ("Content-Length", str(len(content)))]
    if status == HTTPStatus.SERVICE_UNAVAILABLE:
        headers.append(("Retry-After", str(RETRY_AFTER)))
    start_response(f"{int(status)} {status.phrase}", headers)
    return [content]
