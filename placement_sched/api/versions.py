# SPDX-License-Identifier: Apache-2.0
"""Microversion negotiation (API-SIG guideline "Microversions")."""

import re
from functools import lru_cache
from typing import NamedTuple, Protocol

import microversion_parse

from placement_sched.errors import Error, Invalid

_PLAIN = re.compile(r"[1-9][0-9]*\.(0|[1-9][0-9]*)")


class Headers(Protocol):
    """Request headers by name, ignoring upper and lower case."""

    def get(self, key: str, /) -> str | None:
        """Return the header's value, or None."""


class Version(NamedTuple):
    """A microversion, compared as numbers: 1.10 is later than 1.9."""

    major: int
    minor: int

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}"

    @property
    def previous(self) -> "Version":
        """Return the previous minor version."""
        return Version(self.major, self.minor - 1)

    def has(self, feature: "Version") -> bool:
        """Return whether this version includes the changes of version ``feature``."""
        return self >= feature


#: First and last version of routes and schemas that exist in all versions.
BEFORE_ALL_VERSIONS = Version(0, 0)
AFTER_ALL_VERSIONS = Version(999, 0)


class NotAcceptable(Error):
    """The requested version or content type is not supported."""


class Versioning(NamedTuple):
    """The versions of an API, and the service type in its version header."""

    service: str
    oldest: Version
    newest: Version
    #: Whether to reject numbers with a sign, a leading zero or an underscore. placement allows
    #: them.
    plain: bool = False

    def negotiate(self, headers: Headers, legacy: str | None = None) -> Version:
        """Return the version of the request, of ``legacy``, or the oldest.

        Raises :class:`Invalid`, or :class:`NotAcceptable` for a version out of range.
        """
        return _negotiate(self, headers.get("OpenStack-API-Version") or "", legacy)


@lru_cache(maxsize=256)  # the clients of a cloud send about a dozen different headers
def _negotiate(versions: Versioning, header: str, legacy: str | None) -> Version:
    headers = {"openstack-api-version": header}
    text = microversion_parse.get_version(headers, service_type=versions.service) or legacy
    if not text:
        return versions.oldest
    if text == "latest":
        return versions.newest
    try:
        numbers = [int(part) for part in text.split(".")]
    except ValueError:
        numbers = []
    if len(numbers) != 2 or (versions.plain and not _PLAIN.fullmatch(text)):
        raise Invalid(f"Invalid microversion: invalid version string: {text}")
    version = Version(*numbers)
    if not versions.oldest <= version <= versions.newest:
        raise NotAcceptable(
            f"Invalid microversion: Unacceptable version header: {text}",
            extra={"max_version": str(versions.newest), "min_version": str(versions.oldest)},
        )
    return version
