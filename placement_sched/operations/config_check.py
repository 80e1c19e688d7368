"""Checks a configuration line by line: what is unknown, of a wrong type, outdated or unusable."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from types import MappingProxyType

from oslo_config import cfg

from placement_sched.config.lines import Assignment, Place, read_assignments
from placement_sched.config.not_yet import NOT_YET
from placement_sched.config.settings import Settings, wrong_value
from placement_sched.config.without_meaning import WITHOUT_MEANING
from placement_sched.config.wrong_values import countable
from placement_sched.db.engine import database_url
from placement_sched.errors import ConfigurationError
from placement_sched.notifications.announcer import announcer_of
from placement_sched.operations.option_catalogue import (
    KEYSTONE_GROUPS,
    MESSAGING_GROUPS,
    Catalogue,
    underscored,
)
from placement_sched.scheduler import options_file
from placement_sched.scheduler.extra_specs import ExtraSpecValidator, all_validators
from placement_sched.scheduler.hardware.pci_alias import Alias, aliases_of
from placement_sched.scheduler.loading import plugins_for
from placement_sched.scheduler.networks import neutron_of

#: How alike (0 to 1) an unknown name and one of ours must be to be a slip rather than another
#: program's. Nova's names, held against ours, stay below, but for those in ``NOT_YET``.
_ALIKE = 0.8

#: How the variables of oslo.messaging's groups begin.
_MESSAGING = "OS_OSLO_MESSAGING_"


@dataclass(frozen=True, slots=True)
class Problem:
    """Something an operator should mend; ``fatal`` unless the configuration works all the same.

    A line that is ``without_effect`` sets nothing: the service starts, but not as it was meant to.
    """

    place: Place | None
    text: str
    fatal: bool = True
    without_effect: bool = False

    def __str__(self) -> str:
        kind = "error" if self.fatal else "warning"
        return f"{self.place}: {kind}: {self.text}" if self.place else f"{kind}: {self.text}"


def check_files(
    files: Sequence[str],
    environment: Mapping[str, str],
    conf: cfg.ConfigOpts,
    unlisted: Mapping[str, str | None] = MappingProxyType({}),
) -> list[Problem]:
    """Return what is wrong with the lines of ``files`` and with ``OS_<GROUP>__<OPTION>``.

    ``conf`` knows the options of strangers' plugins. ``unlisted`` are sections that an aggregate
    may name as its policy, each with why it could not be used, or None.
    """
    catalogue = Catalogue(conf, messaging=False)
    problems: list[Problem] = []
    written: list[Assignment] = []
    for file in files:
        try:
            written += read_assignments(file)
        except ConfigurationError as wrong:
            problems.append(Problem(None, wrong.detail))
    if any(variable.startswith(_MESSAGING) for variable in environment) or not all(
        catalogue.knows(line.group, line.name) for line in written
    ):
        catalogue.add_messaging()
    written += _from_environment(environment, catalogue)
    problems += _keystone(written, catalogue)
    problems += _unknown_groups(written, catalogue, unlisted)
    for assignment in written:
        problems += _check(assignment, catalogue)
    order = [*files, *(f"environment {variable}" for variable in sorted(environment))]
    return sorted(problems, key=lambda problem: _position(problem, order))


def _position(problem: Problem, order: Sequence[str]) -> tuple[int, int]:
    if problem.place is None:
        return (-1, 0)
    return (order.index(problem.place.file), problem.place.line)


def check_settings(settings: Settings) -> list[Problem]:
    """Return what is wrong with values of the right type.

    They are the database URL, the plugins named, the extra specs that packages tell of, the PCI
    aliases, how neutron is to be asked, how others are told and, where the others are right, what
    ``[scheduler] json_config_location`` lays over them.
    """
    problems: list[Problem] = []
    for check in (
        database_url,
        plugins_for,
        _validators,
        _pci_aliases,
        neutron_of,
        announcer_of,
    ):
        try:
            check(settings)
        except ConfigurationError as wrong:
            problems.append(Problem(None, wrong.detail))
    return problems or list(_options_file(settings))


def _options_file(settings: Settings) -> Iterator[Problem]:
    try:
        found = options_file.read(settings)
    except ConfigurationError as wrong:
        yield Problem(None, wrong.detail)
        return
    yield from (Problem(None, told, fatal=False) for told in found.passed_over)


def _validators(_settings: Settings) -> Sequence[ExtraSpecValidator]:
    return all_validators()


def _pci_aliases(settings: Settings) -> Mapping[str, Alias]:
    in_placement = settings.filter_scheduler.pci_in_placement
    return aliases_of(settings.pci.alias, in_placement=in_placement)


def _from_environment(environment: Mapping[str, str], catalogue: Catalogue) -> Iterator[Assignment]:
    """Yield the variables that name a group of ours; ``OS_`` belongs to other programs as well."""
    for variable, value in sorted(environment.items()):
        group, separator, name = variable.removeprefix("OS_").partition("__")
        if not (variable.startswith("OS_") and separator):
            continue
        group = "DEFAULT" if group == "DEFAULT" else group.lower()
        if catalogue.knows_group(group):
            place = Place(f"environment {variable}", 0)
            yield Assignment(place, place, group, name.lower(), value)


def _keystone(written: Iterable[Assignment], catalogue: Catalogue) -> Iterator[Problem]:
    for line in written:
        if line.group in KEYSTONE_GROUPS and underscored(line.name) == "auth_type":
            try:
                catalogue.add_keystone_plugin(line.group, line.value)
            except ConfigurationError as unknown:
                yield Problem(line.place, unknown.detail)


def _unknown_groups(
    written: Sequence[Assignment], catalogue: Catalogue, unlisted: Mapping[str, str | None]
) -> Iterator[Problem]:
    """Yield each unknown group once, where it is first written; a policy's section is none.

    An operator brings whole files of nova along: what is not like anything of ours is no fault.
    """
    told = _listed_policies(written)
    for line in written:
        if line.group in told or catalogue.knows_group(line.group):
            continue
        told.add(line.group)
        foreign = line.group in MESSAGING_GROUPS
        near = None if foreign else _nearest(line.group, catalogue.groups())
        if near:
            text = f"there is no group [{line.group}]; did you mean [{near}]?"
        elif line.group in unlisted:
            reason = unlisted[line.group]
            if reason is None:
                continue
            text = f"there is no group [{line.group}] here, nor can it be a policy: {reason}"
        else:
            text = f"there is no group [{line.group}] here, and nothing in it is used"
        yield Problem(line.heading, text, fatal=bool(near), without_effect=True)


def _listed_policies(written: Iterable[Assignment]) -> set[str]:
    """Return the names that the last line of ``[scheduler] policies`` lists."""
    names: list[str] = []
    for line in written:
        if (line.group, underscored(line.name)) == ("scheduler", "policies"):
            names = line.value.split(",")
    return {name.strip().lower() for name in names}


def _check(line: Assignment, catalogue: Catalogue) -> Iterator[Problem]:
    if not catalogue.knows_group(line.group):
        return
    option = catalogue.find(line.group, line.name)
    if option is None:
        today = catalogue.deprecated.get((line.group, underscored(line.name)))
        if today is None:
            yield _unknown_option(line, catalogue)
            return
        group, option = today
        yield Problem(
            line.place,
            f"[{line.group}] {line.name} is a deprecated name of [{group}] {option.dest}",
            fatal=False,
        )
    elif option.deprecated_for_removal:
        reason = f": {option.deprecated_reason}" if option.deprecated_reason else ""
        yield Problem(
            line.place, f"[{line.group}] {line.name} will be removed{reason}", fatal=False
        )
    yield from _check_type(line, option)


def _unknown_option(line: Assignment, catalogue: Catalogue) -> Problem:
    """Return what to say of an option nobody has: OpenStack's may be there to no effect."""
    unused = WITHOUT_MEANING.get((line.group, underscored(line.name)))
    if unused is not None:
        text = f"[{line.group}] {line.name} is ignored: {unused}"
        return Problem(line.place, text, fatal=False, without_effect=True)
    if (line.group, underscored(line.name)) in NOT_YET:
        text = f"[{line.group}] {line.name} is not used by this release"
        return Problem(line.place, text, fatal=False, without_effect=True)
    text = f"there is no option [{line.group}] {line.name}"
    elsewhere = catalogue.groups_with(line.name)
    if elsewhere:
        places = " and ".join(f"[{group}]" for group in elsewhere)
        return Problem(line.place, f"{text}; there is one in {places}", without_effect=True)
    near = _nearest(underscored(line.name), catalogue.names(line.group))
    if near:
        return Problem(line.place, f"{text}; did you mean {near}?", without_effect=True)
    return Problem(line.place, f"{text} here, and it is not used", fatal=False, without_effect=True)


def _nearest(name: str, names: Iterable[str]) -> str | None:
    return next(iter(get_close_matches(name, sorted(names), n=1, cutoff=_ALIKE)), None)


def _check_type(line: Assignment, option: cfg.Opt) -> Iterator[Problem]:
    if "$" in line.value:
        return  # oslo.config replaces $name by another option's value when it is read
    try:
        countable(option, option.type(line.value))
    except (TypeError, ValueError) as wrong:
        yield Problem(line.place, wrong_value(line, option, wrong))
