"""Between what is synchronised and where it is kept: here, or in services asked over HTTP.

The rules are the operations'; what stands behind a port only tells and changes.
"""

from collections.abc import Callable, Collection, Mapping
from typing import Protocol

from placement_sched.model.host_map import HostMap
from placement_sched.model.sync import Changed, TraitRecord

#: A trait on a provider: the provider's uuid and the trait's name.
Pair = tuple[str, str]

#: Called with what has just been done, for who wants to read along.
Note = Callable[[str], None]
#: Called with how many changes are done, and how many there are.
Progress = Callable[[int, int], None]


class Directory(Protocol):
    """Where host aggregates and hosts are kept: nova, or this service's compute face."""

    def read(self) -> HostMap:
        """Return them as they are now; raises :class:`ServiceFailed`, :class:`Unavailable`."""
        ...


class Placement(Protocol):
    """Where providers, their aggregates and their traits are kept.

    Each method raises :class:`ServiceFailed` or :class:`Unavailable` where nothing can be done at
    all. A change of one provider that others change at the same moment is tried again.
    """

    @property
    def batch(self) -> int:
        """How many providers are changed at most before somebody is told."""
        ...

    def members(self, aggregates: Collection[str]) -> Mapping[str, frozenset[str]]:
        """Return the uuids of the providers in each of these aggregates."""
        ...

    def join(self, aggregate: str, providers: Collection[str]) -> Changed:
        """Put providers into an aggregate."""
        ...

    def leave(self, aggregate: str, providers: Collection[str]) -> Changed:
        """Take providers out of an aggregate."""
        ...

    def known_traits(self, names: Collection[str]) -> frozenset[str]:
        """Return which of these traits there are."""
        ...

    def create_trait(self, name: str) -> None:
        """Make a ``CUSTOM_`` trait, unless it is there."""
        ...

    def carriers(self, traits: Collection[str]) -> Mapping[str, frozenset[str]]:
        """Return the uuids of the providers that have each of these traits, which there are."""
        ...

    def existing(self, providers: Collection[str]) -> frozenset[str]:
        """Return which of these providers there are."""
        ...

    def put_on(self, trait: str, providers: Mapping[str, str]) -> Changed:
        """Put a trait on providers, and keep the record that it was put there.

        ``providers`` tells the uuid of the aggregate that asks for it, by provider. Of those that
        have it already no record is made: it is not ours.
        """
        ...

    def take_off(self, trait: str, providers: Collection[str]) -> Changed:
        """Take a trait from providers, and forget that it was put there.

        It stays on those that are known not to be the ones it was put on.
        """
        ...

    @property
    def remembers(self) -> bool:
        """Whether there is a record of what was put where, without which nothing is taken off."""
        ...

    def put_there(self) -> TraitRecord:
        """Return the record of what was put where."""
        ...

    def settle(self, outlived: Collection[Pair]) -> None:
        """Take out of the record what its providers are gone of, as it was read."""
        ...

    def remember(self, pairs: Mapping[Pair, str]) -> None:
        """Note for these pairs of the record another aggregate."""
        ...

    def forget(self, pairs: Collection[Pair]) -> None:
        """Take these pairs out of the record."""
        ...
