# SPDX-License-Identifier: Apache-2.0
"""Requests with ambiguous ends (request smuggling).

Each is a request for ``/placement/traits/CUSTOM_PROBE_<number>``. A server that misreads its end
finds a second request, for ``CUSTOM_SMUGGLED_<number>``.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from tests.support.versions import LATEST

_COMMON_HEADERS = f"X-Auth-Token: admin\r\nOpenStack-API-Version: placement {LATEST}\r\n"
#: Longer than the longest line or head that servers accept.
_LONG_TEXT = "x" * 300_000


@dataclass(frozen=True)
class Probe:
    """Text to send. By RFC 9112 it has at most ``requests`` requests."""

    name: str
    head: str
    body: str = ""
    line: str = "PUT {path} HTTP/1.1"
    host: str = "Host: localhost\r\n"
    requests: int = 1

    def build_bytes(self, number: int) -> bytes:
        """Return the bytes, with a second request in the place of ``<canary>``."""
        line = self.line.format(path=f"/placement/traits/CUSTOM_PROBE_{number}", huge=_LONG_TEXT)
        text = f"{line}\r\n{self.host}{_COMMON_HEADERS}{self.head}\r\n{self.body}"
        canary = (
            f"PUT /placement/traits/CUSTOM_SMUGGLED_{number} HTTP/1.1\r\n"
            f"Host: localhost\r\n{_COMMON_HEADERS}\r\n"
        )
        text = text.replace("<canary>", canary).replace("<length>", str(len(canary)))
        return (
            text.replace("<hex>", f"{len(canary):x}")
            .replace("<huge>", _LONG_TEXT)
            .encode("latin-1")
        )


_CHUNKED_HEADER = "Transfer-Encoding: chunked\r\n"
_LAST_CHUNK = "0\r\n\r\n"


def _build_probes_with_wrong_lengths() -> Iterator[Probe]:
    """Yield requests with invalid or several lengths."""
    for name, value in {
        "negative": "-<length>",
        "signed": "+<length>",
        "hexadecimal": "0x<hex>",
        "with a space": "1 0",
        "with an underscore": "1_0",
        "in digits of another script": "\xb2",
        "empty": "",
        "larger than 64 bits": "18446744073709551617",
        "of a hundred digits": "9" * 100,
        "a list that differs": "0, <length>",
        "a fraction": "<length>.0",
    }.items():
        yield Probe(f"length {name}", f"Content-Length: {value}\r\n", "<canary>")
    yield Probe("two lengths", "Content-Length: 0\r\nContent-Length: <length>\r\n", "<canary>")
    yield Probe(
        "two lengths, the larger first",
        "Content-Length: <length>\r\nContent-Length: 0\r\n",
        "<canary>",
    )
    yield Probe(
        "the same length twice",
        "Content-Length: 2\r\nContent-Length: 2\r\n",
        "{}<canary>",
        requests=2,
    )
    yield Probe("a length beyond the end", "Content-Length: 1000\r\n", "{}")
    yield Probe("a body of GET", "Content-Length: <length>\r\n", "<canary>", "GET {path} HTTP/1.1")
    yield Probe("a space before the colon", "Content-Length : <length>\r\n", "<canary>")
    yield Probe(
        "an underscore for the hyphen", "Content_Length: <length>\r\n", "<canary>", requests=2
    )


def _build_probes_with_wrong_chunks() -> Iterator[Probe]:
    """Yield requests with valid and invalid chunks."""
    yield Probe(
        "chunks beside a length",
        f"Content-Length: 5\r\n{_CHUNKED_HEADER}",
        f"{_LAST_CHUNK}<canary>",
        requests=2,
    )
    yield Probe(
        "chunks beside a longer length",
        f"Content-Length: 1000\r\n{_CHUNKED_HEADER}",
        f"{_LAST_CHUNK}<canary>",
        requests=2,
    )
    yield Probe("chunks that hold a request", _CHUNKED_HEADER, "<hex>\r\n<canary>\r\n0\r\n\r\n")
    for name, value in {
        "in capitals": "CHUNKED",
        "misspelt": "xchunked",
        "not last": "chunked, identity",
        "identity": "identity",
        "quoted": '"chunked"',
        "after a vertical tab": "\x0bchunked",
        "before a NUL": "chunked\x00",
        "twice": "chunked, chunked",
        "empty": "",
    }.items():
        head = f"Transfer-Encoding: {value}\r\nContent-Length: 5\r\n"
        yield Probe(f"transfer encoding {name}", head, f"{_LAST_CHUNK}<canary>", requests=2)
    yield Probe(
        "transfer encodings that differ",
        f"{_CHUNKED_HEADER}Transfer-Encoding: x\r\n",
        f"{_LAST_CHUNK}<canary>",
        requests=2,
    )
    yield Probe(
        "chunks of HTTP/1.0", _CHUNKED_HEADER, f"{_LAST_CHUNK}<canary>", "PUT {path} HTTP/1.0"
    )
    for name, body in {
        "a chunk size of 65 bits": "10000000000000002\r\n{}\r\n0\r\n\r\n<canary>",
        "a negative chunk size": "-2\r\n{}\r\n0\r\n\r\n<canary>",
        "a chunk size with 0x": "0x2\r\n{}\r\n0\r\n\r\n<canary>",
        "an empty chunk size": "\r\n{}\r\n0\r\n\r\n<canary>",
        "a chunk longer than its size": "1\r\n{}\r\n0\r\n\r\n<canary>",
        "chunks ended by a bare LF": "2\n{}\n0\n\n<canary>",
        "chunks ended by a bare CR": "2\r{}\r0\r\r<canary>",
        "a chunk extension with a bare LF": "2;a\nb\r\n{}\r\n0\r\n\r\n<canary>",
        "a chunk extension of 300 kB": "2;<huge>\r\n{}\r\n0\r\n\r\n",
        "chunks without an end": "2\r\n{}\r\n",
    }.items():
        yield Probe(name, _CHUNKED_HEADER, body, requests=1)
    for name, body in {
        "a chunk extension": "2;a=b\r\n{}\r\n0\r\n\r\n<canary>",
        "a trailer that is a length": "2\r\n{}\r\n0\r\nContent-Length: 1000\r\n\r\n<canary>",
        "zeros before a chunk size": "0002\r\n{}\r\n000\r\n\r\n<canary>",
    }.items():
        yield Probe(name, _CHUNKED_HEADER, body, requests=2)


def _build_probes_with_wrong_headers() -> Iterator[Probe]:
    """Yield requests with invalid headers."""
    yield Probe(
        "a folded length", "X-A: b\r\n Content-Length: <length>\r\n", "<canary>", requests=2
    )
    yield Probe("a length on the next line", "Content-Length:\r\n <length>\r\n", "<canary>")
    yield Probe(
        "chunked on the next line", "Transfer-Encoding:\r\n chunked\r\n", f"{_LAST_CHUNK}<canary>"
    )
    yield Probe(
        "a header after a bare LF", "X-A: b\nContent-Length: <length>\r\n", "<canary>", requests=2
    )
    yield Probe(
        "a header after a bare CR", "X-A: b\rContent-Length: <length>\r\n", "<canary>", requests=2
    )
    yield Probe("a head ended by bare LFs", "X-A: b\n\n<canary>", requests=2)
    yield Probe("NUL in a header", "X-A: b\x00c\r\n")
    yield Probe("NUL in a header's name", "X\x00A: b\r\n")
    yield Probe("a space in a header's name", "X A: b\r\n")
    yield Probe("a header without a name", ": b\r\n")
    yield Probe("a header without a colon", "Content-Length\r\n", "<canary>", requests=2)
    yield Probe("a header of 300 kB", "X-A: <huge>\r\n")
    yield Probe("twenty thousand headers", "X-A: b\r\n" * 20_000)
    yield Probe("no Host", "", host="")
    yield Probe("two Hosts", "Host: other\r\n")
    yield Probe("a Host with a path", "", host="Host: a/placement/../metrics\r\n")


def _build_probes_with_wrong_request_lines() -> Iterator[Probe]:
    """Yield requests with invalid or unusual request lines."""
    for name, line in {
        "without a version": "PUT {path}",
        "of HTTP/1.2": "PUT {path} HTTP/1.2",
        "of HTTP/2.0": "PUT {path} HTTP/2.0",
        "of http in small letters": "PUT {path} http/1.1",
        "with two spaces": "PUT  {path}  HTTP/1.1",
        "with a tab": "PUT\t{path}\tHTTP/1.1",
        "with a space before": " PUT {path} HTTP/1.1",
        "with NUL": "PUT {path}\x00 HTTP/1.1",
        "of 300 kB": "PUT {path}?{huge} HTTP/1.1",
        "with a method of 300 kB": "{huge} {path} HTTP/1.1",
        "with a path in bytes beyond ASCII": "PUT {path}\xff\xc0\xae HTTP/1.1",
        "in absolute form": "PUT http://other{path} HTTP/1.1",
        "in absolute form of another scheme": "PUT file://other{path} HTTP/1.1",
        "of CONNECT": "CONNECT localhost:443 HTTP/1.1",
        "of OPTIONS for all": "OPTIONS * HTTP/1.1",
        "of PUT for all": "PUT * HTTP/1.1",
        "of HTTP/2 with prior knowledge": "PRI * HTTP/2.0",
        "of TRACE": "TRACE {path} HTTP/1.1",
    }.items():
        yield Probe(f"a line {name}", "", line=line)
    upgrade = "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n"
    yield Probe("an upgrade to HTTP/2", upgrade)
    yield Probe("an upgrade to a websocket", "Connection: Upgrade\r\nUpgrade: websocket\r\n")
    yield Probe("a request after another", "", "<canary>", requests=2)


FRAMING_PROBES = (
    *_build_probes_with_wrong_lengths(),
    *_build_probes_with_wrong_chunks(),
    *_build_probes_with_wrong_headers(),
    *_build_probes_with_wrong_request_lines(),
)
