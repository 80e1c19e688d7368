"""Addresses and tokens of services, as people write them: what cannot be asked is refused."""

from urllib.parse import urlsplit

from placement_sched.errors import Invalid


def check_address(flag: str, url: str) -> None:
    """Raise :class:`Invalid` for what is no address of a service."""
    if not _is_address(url):
        raise Invalid(f"{flag} {url}: an http:// or https:// address is wanted")


def check_token(token: str) -> None:
    """Raise :class:`Invalid` for a token that no header can carry; it is not shown."""
    try:
        token.encode("latin-1")  # what clients write headers in
    except UnicodeEncodeError:
        sendable = False
    else:
        sendable = token == "" or token.isprintable()
    if not sendable:
        raise Invalid("the token (--token, else $OS_TOKEN) has characters that no header carries")


def _is_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
        # Both are read only when they are asked for, and what cannot be is told only then.
        host, _ = parts.hostname, parts.port
        if host is not None:
            host.encode("idna")
    except ValueError:
        return False
    return parts.scheme in {"http", "https"} and bool(host)
