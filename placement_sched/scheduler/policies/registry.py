"""Which policies there are, and under which settings each puts a request."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property, lru_cache

from placement_sched.config.settings import Settings
from placement_sched.errors import ConfigurationError
from placement_sched.model.clock import Clock, utcnow
from placement_sched.model.host_aggregate import DEFAULT_POLICY
from placement_sched.scheduler.completion import check_aliases
from placement_sched.scheduler.loading import plugins_for
from placement_sched.scheduler.policies.sections import (
    MOST_RATIO,
    RATIOS,
    Names,
    Override,
    lines_of,
    overrides_of,
    says_something,
    settings_under,
)


@dataclass(frozen=True, slots=True)
class Policy:
    """A policy: its name, the settings of requests under it, and what its section overrides."""

    name: str
    settings: Settings
    overrides: tuple[Override, ...] = ()


@dataclass
class Policies:
    """The policies of one state of the configuration; ``default`` is what they override.

    ``[scheduler] policies`` names them. Where it does not, every section that is no group of
    options is one, and is read when it is first asked for.
    """

    default: Policy
    clock: Clock = utcnow
    _known: dict[str, Policy | ConfigurationError] = field(default_factory=dict)

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of all but the default one, in lower case as sections have them."""
        settings = self.default.settings
        listed = [name.lower() for name in settings.scheduler.policies]
        return tuple(listed) or self._usable

    @property
    def unlisted(self) -> tuple[str, ...]:
        """Return the sections that set anything and are no group of options, in their order."""
        settings = self.default.settings
        return tuple(
            name
            for name, lines in settings.sections.items()
            if lines and name != DEFAULT_POLICY and not settings.has_group(name)
        )

    @cached_property
    def imaginable(self) -> bool:
        """Whether an aggregate may name a policy, were it one that cannot be used.

        So it is where policies are listed, or a section that no group of options has is empty or
        sets what a policy may set. Where it is not, nobody need look at aggregates.
        """
        settings = self.default.settings
        if self.named:
            return True
        try:
            names = Names(settings)
        except ConfigurationError:
            return True
        return any(
            not lines or says_something(lines, names)
            for name, lines in settings.sections.items()
            if name != DEFAULT_POLICY and not settings.has_group(name)
        )

    @cached_property
    def _usable(self) -> tuple[str, ...]:
        """The sections that are policies as they are; other programs' sections are none."""
        return tuple(name for name in self.unlisted if self.usable(name))

    @property
    def named(self) -> bool:
        """Return whether the configuration lists its policies."""
        return bool(self.default.settings.scheduler.policies)

    def get(self, name: str) -> Policy:
        """Return the policy of this name.

        Raises :class:`ConfigurationError` where there is none, or its section cannot be used.
        """
        name = name.lower()
        if name == DEFAULT_POLICY:
            return self.default
        found = self._known.get(name)
        if found is None:
            try:
                found = self._read(name)
            except ConfigurationError as wrong:
                found = wrong
            self._known[name] = found
        if isinstance(found, ConfigurationError):
            raise found
        return found

    def usable(self, name: str) -> bool:
        """Return whether there is such a policy, and nothing is wrong with it."""
        try:
            self.get(name)
        except ConfigurationError:
            return False
        return True

    def check(self, used: Iterable[str] = ()) -> None:
        """Raise :class:`ConfigurationError` for a policy, listed or in use, that cannot be used."""
        for name in used:
            self.get(name)
        if self.named:
            for name in self.names:
                lines_of(name, self.default.settings)  # the default policy has none, nor may have
                self.get(name)

    def _read(self, name: str) -> Policy:
        sections = self.default.settings.sections
        if name not in (self.names if self.named else sections):
            known = ", ".join([DEFAULT_POLICY, *sorted(self.names)])
            raise ConfigurationError(f"there is no policy {name!r}; there are: {known}")
        default = self.default.settings
        overrides = overrides_of(name, default)
        settings = settings_under(default, overrides)
        try:
            _check_ratios(settings)
            check_aliases(settings)
            plugins_for(settings, self.clock)
        except ConfigurationError as wrong:
            raise ConfigurationError(_placed(name, overrides, wrong.detail)) from None
        return Policy(name, settings, overrides)


def _check_ratios(settings: Settings) -> None:
    for group, name in sorted(RATIOS):
        ratio = getattr(getattr(settings, group), name)
        if ratio is not None and not 0 <= ratio <= MOST_RATIO:
            raise ConfigurationError(f"[{group}] {name}: {ratio} is no ratio")


def _placed(name: str, overrides: Iterable[Override], wrong: str) -> str:
    """Return what is wrong with a policy's plugins or values, with the line that says so."""
    for override in overrides:
        if wrong.startswith(f"[{override.group}] {override.option}"):
            return f"{override.place}: [{name}]: {wrong}"
    return f"[{name}]: {wrong}"


@lru_cache(maxsize=64)
def policies_for(settings: Settings, clock: Clock = utcnow) -> Policies:
    """Return the policies beside these settings, made once for them."""
    return Policies(Policy(DEFAULT_POLICY, settings), clock)
