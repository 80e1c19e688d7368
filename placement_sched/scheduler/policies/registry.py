# SPDX-License-Identifier: Apache-2.0
"""Registry of scheduling policies, and the choice for a request."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from itertools import chain
from types import MappingProxyType

from oslo_config import cfg

from placement_sched.config.conf import list_server_options
from placement_sched.config.options.compute import RATIOS
from placement_sched.config.options.ignored import SECTIONS_OF_NOVA
from placement_sched.config.settings import Settings, cached_by_settings
from placement_sched.config.sources import Assignment, Place, convert_value, describe_wrong_value
from placement_sched.errors import ConfigurationError
from placement_sched.explain.values import PolicyReport, SelectorReport
from placement_sched.limits import MAX_RATIO
from placement_sched.model.aggregates import DEFAULT_POLICY, HostAggregate
from placement_sched.model.clock import Clock, utcnow
from placement_sched.model.hardware.pci_requests import Alias, parse_aliases
from placement_sched.model.names import suggest_name
from placement_sched.model.request_spec import RequestSpec
from placement_sched.scheduler.plugin import PluginCall
from placement_sched.scheduler.plugins import get_plugins
from placement_sched.scheduler.policies.selectors import BasePolicySelector

#: The group of an option, and its name in the group.
OptionName = tuple[str, str]
#: The lines of a policy's section by the options that they set.
Overrides = Mapping[OptionName, tuple[Assignment, ...]]
Ratios = Mapping[str, float]
NO_RATIOS: Ratios = MappingProxyType({})

#: Prefixes of the option groups that libraries read themselves.
_LIBRARY_PREFIXES = ("oslo_", "keystone_")


def read_overrides(name: str, settings: Settings) -> Overrides:
    """Return the lines of a policy's section by the options that they set.

    The last line of an option counts, or all lines if it is repeatable. Raises
    :class:`ConfigurationError`, with file and line, for an unknown, ambiguous or fixed option.
    """
    names = OptionNames(settings)
    overrides: dict[OptionName, tuple[Assignment, ...]] = {}
    for line in get_section_lines(name, settings):
        group, option = key = names.resolve_option(line)
        is_repeatable = isinstance(settings.registered[group][option], cfg.MultiOpt)
        earlier = overrides.get(key, ()) if is_repeatable else ()
        overrides[key] = (*earlier, line)
    return overrides


def get_section_lines(name: str, settings: Settings) -> tuple[Assignment, ...]:
    """Return the lines of a policy's section.

    Raises :class:`ConfigurationError` for a group of options and for a missing section.
    """
    reserved = (*settings.registered, DEFAULT_POLICY)
    lines = settings.sections.get(name)
    if name in reserved or name.startswith(_LIBRARY_PREFIXES):
        problem = f"{name!r} is a group of options, and cannot be a policy"
    elif lines is None:
        problem = f"there is no section [{name}]"
    else:
        return lines
    place = find_place(settings, "policies")
    raise ConfigurationError(f"[scheduler] policies: {problem}", place=place)


def find_place(settings: Settings, name: str) -> Place | None:
    """Return file and line of an option of [scheduler], or None if unset."""
    assignment = settings.find_assignment("scheduler", name)
    return None if assignment is None else assignment.place


def apply_overrides(settings: Settings, overrides: Overrides) -> Settings:
    """Return the settings as changed by a policy's overrides.

    Raises :class:`ConfigurationError`, with file and line, if a value is invalid.
    """
    for (group, name), lines in overrides.items():
        place, option = lines[-1].place, settings.registered[group][name]
        value = [line.value for line in lines] if len(lines) > 1 else lines[0].value
        try:
            typed = convert_value(option, value)
        except ValueError as wrong:
            message = describe_wrong_value(lines[-1], option, wrong)
            raise ConfigurationError(message, place=place) from None
        settings = settings.with_values({(group, name): typed}, str(place))
    return settings


class OptionNames:
    """Resolver of option names in the sections of policies."""

    def __init__(self, settings: Settings) -> None:
        fixed = list_server_options() - RATIOS
        # Options by full name (group_option), by bare name and by deprecated name.
        whole, bare, old = (defaultdict[str, set[OptionName]](set) for _ in range(3))
        self._kinds = (whole, bare, old)
        self._fixed: set[str] = set()
        for group, members in settings.registered.items():
            for dest, option in members.items():
                key = (group, dest)
                if key in fixed:
                    self._fixed |= {dest, f"{group}_{dest}"}
                    continue
                bare[dest].add(key)
                whole[f"{group}_{dest}"].add(key)
                for deprecated in option.deprecated_opts:
                    old[(deprecated.name or dest).replace("-", "_")].add(key)
        origin = "[scheduler] policy_overrides"
        place = find_place(settings, "policy_overrides")
        allowed = settings.scheduler.policy_overrides
        self._allowed = frozenset(self._resolve(name, origin, place) for name in allowed)

    def resolve_option(self, line: Assignment) -> OptionName:
        """Return the group and name of the option that a line sets."""
        key = self._resolve(line.name, f"[{line.group}]", line.place)
        if self._allowed and key not in self._allowed:
            raise ConfigurationError(
                f"[{line.group}]: {line.name} may not be overridden: it is not among [scheduler] "
                "policy_overrides",
                place=line.place,
            )
        return key

    def check_line(self, line: Assignment, settings: Settings) -> None:
        """Raise ConfigurationError if the name or the value of a line is wrong."""
        apply_overrides(settings, {self.resolve_option(line): (line,)})

    def has_meaning(self, line: Assignment) -> bool:
        """Return whether a line sets an option that a policy may set."""
        try:
            self.resolve_option(line)
        except ConfigurationError:
            return False
        return True

    def _resolve(self, text: str, origin: str, place: Place | None) -> OptionName:
        name = text.replace("-", "_").replace(".", "_")
        options = next((kind[name] for kind in self._kinds if name in kind), set())
        if len(options) == 1:
            return next(iter(options))
        if options:
            whole = ", ".join(sorted(map("_".join, options)))
            problem = f"{text} is the name of several options: {whole}"
        elif name in self._fixed:
            problem = f"{text} is not read per request: a policy cannot set it"
        else:
            hint = suggest_name("option", name, chain(*self._kinds), shown=str)
            problem = f"there is no option {text}{hint}"
        raise ConfigurationError(f"{origin}: {problem}", place=place)


def read_pci_aliases(settings: Settings) -> Mapping[str, Alias]:
    """Read the PCI aliases of these settings, including unusable aliases."""
    in_placement = settings.filter_scheduler.pci_in_placement
    return parse_aliases(settings.pci.alias, in_placement=in_placement)


@dataclass(frozen=True, slots=True, eq=False)
class SchedulingPolicy:
    """A scheduling policy: its name, its settings, and its overrides."""

    name: str
    settings: Settings
    overrides: Overrides = field(default_factory=dict)


@dataclass
class Policies:
    """The scheduling policies of a configuration, including the default.

    ``[scheduler] policies`` lists them. If the list is empty, a policy is every section that is
    neither a group of options nor a section of nova.conf. Such sections are read on first use.
    """

    default: SchedulingPolicy
    clock: Clock = utcnow
    _cached: dict[str, SchedulingPolicy | ConfigurationError] = field(default_factory=dict)

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of all policies except the default, in lower case."""
        names = self.default.settings.scheduler.policies
        return tuple(name.lower() for name in names) or self._usable

    @property
    def named(self) -> bool:
        """Return whether the configuration lists its policies."""
        return bool(self.default.settings.scheduler.policies)

    @property
    def unlisted(self) -> tuple[str, ...]:
        """Return the non-empty sections that are not groups of options, in order."""
        return tuple(name for name, lines in self._map_sections().items() if lines)

    @cached_property
    def _usable(self) -> tuple[str, ...]:
        return tuple(name for name in self.unlisted if self.is_usable(name))

    @cached_property
    def can_exist(self) -> bool:
        """Return whether aggregates may name a policy, usable or not.

        True if policies are listed, or if a section that is not a group of options is empty or sets
        an option that a policy may set. Otherwise aggregates need no check.
        """
        if self.named:
            return True
        try:
            names = OptionNames(self.default.settings)
        except ConfigurationError:
            return True
        return any(
            not lines or any(map(names.has_meaning, lines))
            for lines in self._map_sections().values()
        )

    def _map_sections(self) -> dict[str, tuple[Assignment, ...]]:
        """Map the sections that are not groups of options to their lines."""
        settings = self.default.settings
        return {
            name: lines
            for name, lines in settings.sections.items()
            if name != DEFAULT_POLICY
            and name not in SECTIONS_OF_NOVA
            and not settings.has_group(name)
        }

    def get(self, name: str) -> SchedulingPolicy:
        """Return a policy, or raise ConfigurationError if missing or invalid."""
        name = name.lower()
        if name == DEFAULT_POLICY:
            return self.default
        policy = self._cached.get(name)
        if policy is None:
            try:
                policy = self._read(name)
            except ConfigurationError as error:
                policy = error
            self._cached[name] = policy
        if isinstance(policy, ConfigurationError):
            raise policy
        return policy

    def is_usable(self, name: str) -> bool:
        """Return whether the policy exists and is valid."""
        try:
            self.get(name)
        except ConfigurationError:
            return False
        return True

    def check(self, used: Iterable[str] = ()) -> None:
        """Raise ConfigurationError if a listed or used policy is unusable."""
        for name in used:
            self.get(name)
        for name in self.names if self.named else ():
            self.check_section(name)

    def check_section(self, name: str) -> None:
        """Raise ConfigurationError if a listed policy is unusable."""
        get_section_lines(name, self.default.settings)  # the default policy must not have a section
        self.get(name)

    def _read(self, name: str) -> SchedulingPolicy:
        default = self.default.settings
        if name not in (self.names if self.named else default.sections):
            existing = [DEFAULT_POLICY, *self.names]
            raise ConfigurationError(
                f"there is no policy {name!r}{suggest_name('policy', name, existing)}"
            )
        overrides = read_overrides(name, default)
        settings = apply_overrides(default, overrides)
        try:
            _check_ratios(settings)
            get_plugins(settings, self.clock)
        except ConfigurationError as error:
            lines = {f"[{group}] {option}": lines for (group, option), lines in overrides.items()}
            place = lines[error.option][-1].place if error.option in lines else None
            raise ConfigurationError(f"[{name}]: {error.detail}", place=place) from None
        return SchedulingPolicy(name, settings, overrides)


def _check_ratios(settings: Settings) -> None:
    for group, name in sorted(RATIOS):
        ratio = settings[group, name]
        if ratio is not None and not 0 <= ratio <= MAX_RATIO:
            option = f"[{group}] {name}"
            raise ConfigurationError(
                f"{option}: {ratio} is not between 0 and {MAX_RATIO}", option=option
            )


@cached_by_settings
def get_policies(settings: Settings, clock: Clock = utcnow) -> Policies:
    """Return the cached policies of these settings."""
    return Policies(SchedulingPolicy(DEFAULT_POLICY, settings), clock)


@lru_cache(maxsize=64)
def read_policy_ratios(policy: SchedulingPolicy) -> Ratios:
    """Return the allocation ratios that a policy sets, except 0.0 and None."""
    ratios = {key: policy.settings[key] for key in sorted(policy.overrides.keys() & RATIOS)}
    return MappingProxyType({name: float(ratio) for (_, name), ratio in ratios.items() if ratio})


def find_ratios(names: Iterable[str], policies: Policies) -> Ratios:
    """Return a host's allocation ratios, by the first usable policy."""
    name = next((name for name in names if policies.is_usable(name)), None)
    return NO_RATIOS if name is None else read_policy_ratios(policies.get(name))


@dataclass(frozen=True, slots=True)
class ChosenPolicy:
    """The policy of a request, with its aggregates and a report of the choice.

    ``confined`` are the uuids of the aggregates that the request must use, ``avoided`` the uuids of
    forbidden aggregates. ``report`` is None if the configuration has no policies.
    """

    policy: SchedulingPolicy
    confined: tuple[str, ...] = ()
    avoided: tuple[str, ...] = ()
    report: PolicyReport | None = None

    def confine(self, spec: RequestSpec) -> RequestSpec:
        """Return the request confined to the aggregates of the policy."""
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
    """Choose the policy of a request.

    It is the policy of the first selector whose matching aggregates all have the same policy.
    ``tagged`` are all aggregates with a policy. Raises :class:`PluginFailed`, naming the selector.
    """
    reports: list[SelectorReport] = []
    for selector in selectors:
        choice, report = _run_selector(selector, spec, policies, tagged)
        reports.append(report)
        if choice is not None and choice.policy is not policies.default:
            policy_report = PolicyReport(name=choice.policy.name, selectors=tuple(reports))
            return replace(choice, report=policy_report)
        if choice is not None:
            break
    return _choose_default(policies, tagged, reports)


def choose_named(name: str, policies: Policies, tagged: Sequence[HostAggregate]) -> ChosenPolicy:
    """Choose a policy by name, or raise the errors of :meth:`Policies.get`."""
    policy = policies.get(name)
    if policy is policies.default:
        return _choose_default(policies, tagged, ())
    confined = tuple(each.uuid for each in tagged if each.policy == policy.name)
    return ChosenPolicy(policy, confined, report=PolicyReport(name=policy.name))


def _choose_default(
    policies: Policies, tagged: Sequence[HostAggregate], reports: Sequence[SelectorReport]
) -> ChosenPolicy:
    policy = policies.default
    avoids = policy.settings.scheduler.default_policy_avoids_policy_aggregates
    avoided = tuple(each.uuid for each in tagged if each.policy != policy.name) if avoids else ()
    report = PolicyReport(name=DEFAULT_POLICY, selectors=tuple(reports))
    return ChosenPolicy(policy, avoided=avoided, report=report)


def _run_selector(
    selector: BasePolicySelector,
    spec: RequestSpec,
    policies: Policies,
    tagged: Sequence[HostAggregate],
) -> tuple[ChosenPolicy | None, SelectorReport]:
    name = selector.name or type(selector).__name__
    with PluginCall(selector):
        criterion = selector.find_requested_value(spec)
        if criterion is None:
            return None, SelectorReport(name=name, outcome="not set in the request")
        if selector.requests_default(spec):
            report = SelectorReport(name=name, requested=criterion, outcome="chosen")
            return ChosenPolicy(policies.default), report
        matched = [each for each in tagged if selector.matches(spec, each)]
    report = SelectorReport(
        name=name,
        requested=criterion,
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
    except ConfigurationError as error:
        return None, replace(report, outcome=f"it cannot be used: {error.detail}")
    return ChosenPolicy(policy, tuple(each.uuid for each in matched)), report
