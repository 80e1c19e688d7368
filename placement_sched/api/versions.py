"""Microversions: which version of a face a request speaks (API-SIG guideline "Microversions")."""

import re
from functools import lru_cache
from typing import NamedTuple, Protocol

import microversion_parse

from placement_sched.errors import Error, Invalid

_PLAIN = re.compile(r"[1-9][0-9]*\.(0|[1-9][0-9]*)")


class Headers(Protocol):
    """Request headers, looked up in any case."""

    def get(self, key: str, /) -> str | None:
        """Return the header's value, or None."""


class Version(NamedTuple):
    """One microversion; versions compare as numbers: 1.10 is later than 1.9."""

    major: int
    minor: int

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}"

    @property
    def before(self) -> "Version":
        """The last version without what came with this one, which is not a major one."""
        return Version(self.major, self.minor - 1)

    def has(self, feature: "Version") -> bool:
        """Return whether a request of this version sees what came with ``feature``."""
        return self >= feature


EVER = Version(0, 0)
NEVER = Version(999, 0)


class NotAcceptable(Error):
    """The version, or the content type, that the caller wants is not served."""


class Versioning(NamedTuple):
    """The versions of one face and the service type that its header names."""

    service: str
    oldest: Version
    newest: Version
    #: Whether numbers with a sign, a leading zero or an underscore are none. placement takes them.
    plain: bool = False

    def negotiate(self, headers: Headers, legacy: str | None = None) -> Version:
        """Return the version that the request headers ask for; without one, the oldest.

        ``legacy`` is another value to go by where ``OpenStack-API-Version`` names no version of
        this service. Raises :class:`Invalid` for an invalid version and :class:`NotAcceptable`
        for one out of range.
        """
        return _negotiated(self, headers.get("OpenStack-API-Version") or "", legacy)


@lru_cache(maxsize=256)  # clients of a cloud send a dozen headers, each many thousand times
def _negotiated(versions: Versioning, header: str, legacy: str | None) -> Version:
    sent = {"openstack-api-version": header}
    asked = microversion_parse.get_version(sent, service_type=versions.service) or legacy
    if not asked:
        return versions.oldest
    if asked == "latest":
        return versions.newest
    if versions.plain and not _PLAIN.fullmatch(asked):
        raise _not_a_version(asked)
    try:
        major, minor = (int(part) for part in asked.split("."))
    except ValueError:
        raise _not_a_version(asked) from None
    version = Version(major, minor)
    if not versions.oldest <= version <= versions.newest:
        raise NotAcceptable(
            f"Invalid microversion: Unacceptable version header: {asked}",
            extra={"max_version": str(versions.newest), "min_version": str(versions.oldest)},
        )
    return version


def _not_a_version(asked: str) -> Invalid:
    return Invalid(f"Invalid microversion: invalid version string: {asked}")
