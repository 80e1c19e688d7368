"""The groups of a request while they are gathered, and who asked for what."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from placement_sched.errors import Invalid
from placement_sched.model.ignored import Ignored
from placement_sched.model.query import AggregateTerms, RequestGroup, TraitTerms

_ANYWHERE = AggregateTerms()


@dataclass(slots=True)
class Group:
    """One group: amounts by class, and for each trait who requires or forbids it."""

    suffix: str = ""
    resources: dict[str, int] = field(default_factory=dict)
    required: dict[str, list[str]] = field(default_factory=dict)
    forbidden: dict[str, list[str]] = field(default_factory=dict)
    aggregates: AggregateTerms = _ANYWHERE
    in_tree: str | None = None
    sources: dict[str, list[str]] = field(default_factory=dict)

    def ask(self, resource_class: str, amount: int, source: str) -> None:
        """Ask for so much of a class, in place of what was asked of it before."""
        self.resources[resource_class] = amount
        self.sources.setdefault(resource_class, []).append(source)

    def require(self, trait: str, source: str) -> None:
        """Require a trait; raises :class:`Invalid` naming both sources if it is forbidden."""
        self.required.setdefault(trait, []).append(source)
        self._check(trait)

    def forbid(self, trait: str, source: str) -> None:
        """Forbid a trait; raises :class:`Invalid` naming both sources if it is required."""
        self.forbidden.setdefault(trait, []).append(source)
        self._check(trait)

    @property
    def askers(self) -> list[str]:
        """Return every source that the group has, each once."""
        told = (self.sources, self.required, self.forbidden)
        return list(dict.fromkeys(one for by in told for some in by.values() for one in some))

    @property
    def is_empty(self) -> bool:
        """Return whether it asks for nothing."""
        return not (
            self.resources or self.required or self.forbidden or self.aggregates != _ANYWHERE
        )

    def frozen(self) -> RequestGroup:
        """Return the group as the candidates search takes it."""
        return RequestGroup(
            suffix=self.suffix,
            resources=tuple(sorted(self.resources.items())),
            traits=TraitTerms(
                tuple(frozenset({name}) for name in sorted(self.required)),
                frozenset(self.forbidden),
            ),
            aggregates=self.aggregates,
            in_tree=self.in_tree,
        )

    def _check(self, trait: str) -> None:
        if trait in self.required and trait in self.forbidden:
            where = f" in group {self.suffix!r}" if self.suffix else ""
            raise Invalid(
                f"trait {trait} is forbidden by {self.forbidden[trait][0]} and required by "
                f"{self.required[trait][0]}{where}"
            )


class Groups:
    """The groups of one request by suffix; ``policy`` is what the flavor says of them together."""

    def __init__(self) -> None:
        self._groups: dict[str, Group] = {}
        self.policy: str | None = None
        #: The suffixes of the groups that the flavor has made.
        self.of_flavor: tuple[str, ...] = ()
        #: Who has asked for none of a class.
        self.declining: tuple[str, ...] = ()
        #: What of flavor and image has no effect, as in nova.
        self.ignored: list[Ignored] = []

    def __getitem__(self, suffix: str) -> Group:
        """Return the group of this suffix, a new one where there is none; "" is the one without."""
        return self._groups.setdefault(suffix, Group(suffix))

    def __contains__(self, suffix: str) -> bool:
        return suffix in self._groups

    def __iter__(self) -> Iterator[Group]:
        return iter(self._groups.values())

    @property
    def plain(self) -> Group:
        """Return the group without suffix."""
        return self[""]

    @property
    def suffixes(self) -> tuple[str, ...]:
        """Return the suffixes of the groups that have one, in the order in which they came."""
        return tuple(suffix for suffix in self._groups if suffix)

    @property
    def classes(self) -> frozenset[str]:
        """Return every class that any group asks for, be it none of it."""
        return frozenset(name for group in self._groups.values() for name in group.resources)

    @property
    def required_traits(self) -> frozenset[str]:
        """Return every trait that any group requires."""
        return frozenset(name for group in self._groups.values() for name in group.required)

    def ignore(self, source: str, key: str, value: str, expected: str) -> None:
        """Note what of flavor or image has no effect, and what was expected in its place."""
        self.ignored.append(Ignored(source, key, value, expected))

    def note_flavor(self) -> None:
        """Remember the groups there are so far as the flavor's."""
        self.of_flavor = self.suffixes

    def strip(self) -> None:
        """Leave out amounts of 0, by which a flavor says that it wants none, and empty groups."""
        self.declining = tuple(
            source
            for group in self._groups.values()
            for name, amount in group.resources.items()
            if not amount
            for source in group.sources[name]
        )
        for suffix, group in list(self._groups.items()):
            group.resources = {name: amount for name, amount in group.resources.items() if amount}
            if group.is_empty:
                del self._groups[suffix]

    def sources_of(self, name: str) -> list[str]:
        """Return who named a class or trait, each once."""
        return list(
            dict.fromkeys(
                source
                for group in self._groups.values()
                for told in (group.sources, group.required, group.forbidden)
                for source in told.get(name, ())
            )
        )
