"""Which policies there are, which settings each stands for, and which is a request's."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from itertools import chain
from types import MappingProxyType

from oslo_config import cfg

from placement_sched.config.conf import server_options
from placement_sched.config.options.compute import RATIOS
from placement_sched.config.options.ignored import SECTIONS_OF_NOVA
from placement_sched.config.settings import Settings
from placement_sched.config.sources import Assignment, Place
from placement_sched.errors import ConfigurationError, Invalid
from placement_sched.limits import MAX_RATIO
from placement_sched.model.aggregates import DEFAULT_POLICY, HostAggregate
from placement_sched.model.clock import Clock, utcnow
from placement_sched.model.explanation import PolicyReport, SelectorReport
from placement_sched.model.hardware.pci_requests import Alias, aliases_of
from placement_sched.model.names import suggested
from placement_sched.model.request_spec import RequestSpec
from placement_sched.scheduler.plugin import calling
from placement_sched.scheduler.plugins import Plugins, plugins_for
from placement_sched.scheduler.policies.selectors import BasePolicySelector

#: A group and the name of one of its options.
OptionName = tuple[str, str]

#: How the groups of the libraries begin that read options of their own.
_OF_LIBRARIES = ("oslo_", "keystone_")


@dataclass(frozen=True, slots=True)
class Override:
    """One line of a policy's section, and the option that it sets."""

    group: str
    option: str
    value: str
    place: Place
    #: What earlier lines say of an option that may be repeated.
    earlier: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        """Return ``group.option``."""
        return f"{self.group}.{self.option}"

    def is_meant_by(self, wrong: str) -> bool:
        """Return whether this is the line that a message on a wrong value is about."""
        return wrong.startswith(f"[{self.group}] {self.option}")


def overrides_of(name: str, settings: Settings) -> tuple[Override, ...]:
    """Return what the section of a policy overrides, the last line of an option alone.

    Of one that may be repeated, all lines count. Raises :class:`ConfigurationError` with file and
    line for what no policy may set, or for a name that means nothing or several things.
    """
    names = Names(settings)
    found: dict[OptionName, Override] = {}
    for line in lines_of(name, settings):
        group, option = meant = names.meant_by(line)
        before = found.pop(meant, None)
        repeated = isinstance(settings.conf.registered[group][option], cfg.MultiOpt)
        earlier = (*before.earlier, before.value) if before and repeated else ()
        found[meant] = Override(group, option, line.value, line.place, earlier)
    return tuple(found.values())


def lines_of(name: str, settings: Settings) -> tuple[Assignment, ...]:
    """Return the lines of a policy's section; raise :class:`ConfigurationError` without one."""
    where = _where(settings, "policies")
    known = (*settings.conf.registered, DEFAULT_POLICY)
    if name in known or name.startswith(_OF_LIBRARIES):
        raise ConfigurationError(f"{where}: {name!r} is a group of options, and cannot be a policy")
    lines = settings.sections.get(name)
    if lines is None:
        raise ConfigurationError(f"{where}: there is no section [{name}]")
    return lines


def settings_under(settings: Settings, overrides: Iterable[Override]) -> Settings:
    """Return ``settings`` with a policy's values over them.

    Raises :class:`ConfigurationError` with file and line for a value that is not of its type.
    """
    for one in overrides:
        value = [*one.earlier, one.value] if one.earlier else one.value
        try:
            settings = settings.overridden({one.key: value}, str(one.place))
        except Invalid as wrong:
            raise ConfigurationError(wrong.detail) from None
    return settings


class Names:
    """What the names in a policy's section mean under some settings."""

    def __init__(self, settings: Settings) -> None:
        standing = server_options() - RATIOS
        # The options that a whole name (group_option), a bare or an old one may mean.
        whole, bare, old = (defaultdict[str, set[OptionName]](set) for _ in range(3))
        self._kinds = (whole, bare, old)
        self._standing: set[str] = set()
        for group, members in settings.conf.registered.items():
            for dest, option in members.items():
                meant = (group, dest)
                if meant in standing:
                    self._standing |= {dest, f"{group}_{dest}"}
                    continue
                bare[dest].add(meant)
                whole[f"{group}_{dest}"].add(meant)
                for one in option.deprecated_opts:
                    old[(one.name or dest).replace("-", "_")].add(meant)
        where = _where(settings, "policy_overrides")
        allowed = settings.scheduler.policy_overrides
        self._allowed = frozenset(self._one(name, where) for name in allowed)

    def meant_by(self, line: Assignment) -> OptionName:
        """Return the option that a line sets."""
        where = f"{line.place}: [{line.group}]"
        meant = self._one(line.name, where)
        if self._allowed and meant not in self._allowed:
            raise ConfigurationError(
                f"{where}: {line.name} may not be overridden: it is not among [scheduler] "
                "policy_overrides"
            )
        return meant

    def has_meaning(self, line: Assignment) -> bool:
        """Return whether a line sets what a policy may set; other programs' lines do not."""
        try:
            self.meant_by(line)
        except ConfigurationError:
            return False
        return True

    def _one(self, given: str, where: str) -> OptionName:
        name = given.replace("-", "_").replace(".", "_")
        for kind in self._kinds:
            options = kind.get(name, set())
            if len(options) == 1:
                return next(iter(options))
            if options:
                whole = ", ".join(sorted(map("_".join, options)))
                raise ConfigurationError(
                    f"{where}: {given} is the name of several options: {whole}"
                )
        if name in self._standing:
            raise ConfigurationError(
                f"{where}: {given} is not read per request, so that no policy can set it"
            )
        hint = suggested("option", name, chain(*self._kinds), shown=str)
        raise ConfigurationError(f"{where}: there is no option {given}{hint}")


def _where(settings: Settings, option: str) -> str:
    """Return an option of ``[scheduler]`` as complaints name it, with its line if it has one."""
    place = settings.place_in_files("scheduler", option)
    return f"{place}: [scheduler] {option}" if place else f"[scheduler] {option}"


#: Ratios by name, like ``cpu_allocation_ratio``.
Ratios = Mapping[str, float]
NO_RATIOS: Ratios = MappingProxyType({})


def checked_plugins(settings: Settings, clock: Clock = utcnow) -> Plugins:
    """Return the plugins; raise :class:`ConfigurationError` for a wrong one, or a wrong alias."""
    pci_aliases(settings)
    return plugins_for(settings, clock)


def pci_aliases(settings: Settings) -> Mapping[str, Alias]:
    """Return the aliases of ``[pci] alias``; raise :class:`ConfigurationError` for wrong ones."""
    return _aliases(tuple(settings.pci.alias), settings.filter_scheduler.pci_in_placement)


@lru_cache
def _aliases(texts: tuple[str, ...], in_placement: bool) -> Mapping[str, Alias]:
    return aliases_of(texts, in_placement=in_placement)


@dataclass(frozen=True, slots=True)
class SchedulingPolicy:
    """A scheduling policy: its name, its requests' settings, and what its section overrides."""

    name: str
    settings: Settings
    overrides: tuple[Override, ...] = ()


@dataclass
class Policies:
    """The scheduling policies of one state of the configuration; ``default`` is what they override.

    ``[scheduler] policies`` names them. Where it does not, every section that is not a group
    of options, nor one of nova.conf's others, is one, and is read when it is first asked for.
    """

    default: SchedulingPolicy
    clock: Clock = utcnow
    _known: dict[str, SchedulingPolicy | ConfigurationError] = field(default_factory=dict)

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of all but the default one, in lower case as sections have them."""
        listed = self.default.settings.scheduler.policies
        return tuple(name.lower() for name in listed) or self._usable

    @property
    def named(self) -> bool:
        """Return whether the configuration lists its policies."""
        return bool(self.default.settings.scheduler.policies)

    @property
    def unlisted(self) -> tuple[str, ...]:
        """Return the sections that set anything and are not groups of options, in their order."""
        return tuple(name for name, lines in self._sections().items() if lines)

    @cached_property
    def _usable(self) -> tuple[str, ...]:
        """The sections that are policies as they are; other programs' sections are none."""
        return tuple(name for name in self.unlisted if self.usable(name))

    @cached_property
    def imaginable(self) -> bool:
        """Whether an aggregate may name a policy, were it one that cannot be used.

        So it is where policies are listed, or a section which is not a group of options is empty or
        sets what a policy may set. Where it is not, aggregates need no look.
        """
        if self.named:
            return True
        try:
            names = Names(self.default.settings)
        except ConfigurationError:
            return True
        return any(
            not lines or any(map(names.has_meaning, lines)) for lines in self._sections().values()
        )

    def _sections(self) -> dict[str, tuple[Assignment, ...]]:
        """Return the sections that are not groups of options, with their lines."""
        settings = self.default.settings
        return {
            name: lines
            for name, lines in settings.sections.items()
            if name != DEFAULT_POLICY
            and name not in SECTIONS_OF_NOVA
            and not settings.has_group(name)
        }

    def get(self, name: str) -> SchedulingPolicy:
        """Return a policy; raise :class:`ConfigurationError` where it is not there or unusable."""
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
        for name in self.names if self.named else ():
            # The default policy has none, nor may have.
            lines_of(name, self.default.settings)
            self.get(name)

    def _read(self, name: str) -> SchedulingPolicy:
        default = self.default.settings
        if name not in (self.names if self.named else default.sections):
            known = [DEFAULT_POLICY, *self.names]
            raise ConfigurationError(
                f"there is no policy {name!r}{suggested('policy', name, known)}"
            )
        overrides = overrides_of(name, default)
        settings = settings_under(default, overrides)
        try:
            _check_ratios(settings)
            checked_plugins(settings, self.clock)
        except ConfigurationError as wrong:
            # With the line that says so, where one does.
            lines = (f"{one.place}: " for one in overrides if one.is_meant_by(wrong.detail))
            raise ConfigurationError(f"{next(lines, '')}[{name}]: {wrong.detail}") from None
        return SchedulingPolicy(name, settings, overrides)


def _check_ratios(settings: Settings) -> None:
    for group, name in sorted(RATIOS):
        ratio = getattr(getattr(settings, group), name)
        if ratio is not None and not 0 <= ratio <= MAX_RATIO:
            raise ConfigurationError(f"[{group}] {name}: {ratio} is not a ratio")


@lru_cache(maxsize=64)
def policies_for(settings: Settings, clock: Clock = utcnow) -> Policies:
    """Return the policies beside these settings, made once for them."""
    return Policies(SchedulingPolicy(DEFAULT_POLICY, settings), clock)


@lru_cache(maxsize=64)
def ratios_of(policy: SchedulingPolicy) -> Ratios:
    """Return the ratios that a policy's own section sets; 0.0 and nothing count as unset."""
    set_there = {(one.group, one.option) for one in policy.overrides} & RATIOS
    options = policy.settings.DEFAULT
    found = {name: getattr(options, name) for _, name in sorted(set_there)}
    return MappingProxyType({name: float(ratio) for name, ratio in found.items() if ratio})


def ratios_under(names: Iterable[str], policies: Policies) -> Ratios:
    """Return the ratios of a host whose aggregates name these policies, by aggregate id.

    No host is to be under two; where one is, the first that can be used holds.
    """
    name = next((name for name in names if policies.usable(name)), None)
    return NO_RATIOS if name is None else ratios_of(policies.get(name))


@dataclass(frozen=True, slots=True)
class ChosenPolicy:
    """The policy of a request, the uuids of the aggregates it is confined to, and why.

    ``avoided`` are those of the aggregates that it stays out of. ``report`` is None where the
    configuration has none.
    """

    policy: SchedulingPolicy
    confined: tuple[str, ...] = ()
    avoided: tuple[str, ...] = ()
    report: PolicyReport | None = None

    def confining(self, spec: RequestSpec) -> RequestSpec:
        """Return the request confined so, by the candidates query: it costs nothing per host."""
        if spec.is_rebuild or not (self.confined or self.avoided):
            return spec
        destination = spec.destination
        if self.confined:
            destination = destination.requiring(self.confined)
        if self.avoided:
            destination = destination.forbidding(self.avoided)
        return replace(spec, requested_destination=destination)


def choose(
    spec: RequestSpec,
    policies: Policies,
    selectors: Sequence[BasePolicySelector],
    tagged: Sequence[HostAggregate],
) -> ChosenPolicy:
    """Return the policy of a request: that of the first selector whose matches are of one policy.

    ``tagged`` are all aggregates that have a policy. Raises :class:`PluginFailed` naming a selector
    that raises.
    """
    reports: list[SelectorReport] = []
    for selector in selectors:
        found, report = _ask(selector, spec, policies, tagged)
        reports.append(report)
        if found is not None and found.policy is not policies.default:
            why = PolicyReport(name=found.policy.name, selectors=tuple(reports))
            return replace(found, report=why)
        if found is not None:
            break
    return _default(policies, tagged, reports)


def under(name: str, policies: Policies, tagged: Sequence[HostAggregate]) -> ChosenPolicy:
    """Return what :func:`choose` would, had a selector chosen this policy; raises as ``get``."""
    policy = policies.get(name)
    if policy is policies.default:
        return _default(policies, tagged, ())
    confined = tuple(each.uuid for each in tagged if each.policy == policy.name)
    return ChosenPolicy(policy, confined, report=PolicyReport(name=policy.name))


def _default(
    policies: Policies, tagged: Sequence[HostAggregate], reports: Sequence[SelectorReport]
) -> ChosenPolicy:
    policy = policies.default
    avoids = policy.settings.scheduler.default_policy_avoids_policy_aggregates
    avoided = tuple(each.uuid for each in tagged if each.policy != policy.name) if avoids else ()
    report = PolicyReport(name=DEFAULT_POLICY, selectors=tuple(reports))
    return ChosenPolicy(policy, avoided=avoided, report=report)


def _ask(
    selector: BasePolicySelector,
    spec: RequestSpec,
    policies: Policies,
    tagged: Sequence[HostAggregate],
) -> tuple[ChosenPolicy | None, SelectorReport]:
    """Return what a selector chooses, if anything, and its report."""
    name = selector.name or type(selector).__name__
    with calling(selector):
        asked = selector.asked(spec)
        if asked is None:
            return None, SelectorReport(name=name, outcome="not set in the request")
        if selector.asks_for_default(spec):
            report = SelectorReport(name=name, asked=asked, outcome="chosen")
            return ChosenPolicy(policies.default), report
        matched = [each for each in tagged if selector.matches(spec, each)]
    report = SelectorReport(
        name=name,
        asked=asked,
        matched=tuple((each.name, each.uuid, each.policy or "") for each in matched),
        outcome="chosen",
    )
    names = sorted({each.policy or "" for each in matched})
    if not names:
        return None, replace(report, outcome="no aggregate with a policy matches")
    if len(names) > 1:
        return None, replace(report, outcome=f"several policies match: {', '.join(names)}")
    try:
        policy = policies.get(names[0])
    except ConfigurationError as wrong:
        return None, replace(report, outcome=f"it cannot be used: {wrong.detail}")
    return ChosenPolicy(policy, tuple(each.uuid for each in matched)), report
