# SPDX-License-Identifier: Apache-2.0
"""Checks of configuration files line by line, including policies."""

import logging
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.metadata import entry_points
from itertools import chain

from keystoneauth1 import loading as keystone_loading
from oslo_config import cfg

from placement_sched.clients.session import check_installed
from placement_sched.config import logs, sources
from placement_sched.config.conf import CONF
from placement_sched.config.options.ignored import WITHOUT_MEANING
from placement_sched.config.options.services import import_oslo_messaging
from placement_sched.config.settings import AliasedBoolOpt, Conf, Settings, list_names
from placement_sched.config.sources import Assignment, Place
from placement_sched.db.engine import build_database_url, parse_url
from placement_sched.errors import ConfigurationError
from placement_sched.model.aggregates import DEFAULT_POLICY
from placement_sched.model.clock import Clock, utcnow
from placement_sched.model.extension import (
    ENTRY_POINT_GROUP,
    list_absent_extensions,
    load_entry_points,
    load_hooks,
)
from placement_sched.model.hardware.pci_requests import list_alias_problems
from placement_sched.model.names import find_nearest, format_suggestion, suggest_name
from placement_sched.notifications import create_notifier
from placement_sched.scheduler import extra_specs
from placement_sched.scheduler.live_settings import with_options_file
from placement_sched.scheduler.plugin import log_missing_once
from placement_sched.scheduler.plugins import ENTRY_POINT_GROUPS, find_class_errors, get_plugins
from placement_sched.scheduler.policies.registry import OptionNames, get_policies, read_pci_aliases
from placement_sched.scheduler.request import create_neutron_client

LOG = logging.getLogger(__name__)

#: The name of the distribution of this package.
_PACKAGE = "placement_sched"

#: The ``oslo.config.opts`` entry points that make up a configuration file of this service.
NAMESPACES = (
    "placement_sched",
    "placement_sched.plugins",
    "placement_sched.neutron",
    "oslo.log",
    "oslo.messaging",
    "oslo.policy",
    "oslo.middleware.cors",
    "oslo.middleware.http_proxy_to_wsgi",
    "keystonemiddleware.auth_token",
)

#: Namespace of the options of third-party packages, for the sample configuration. A check of files
#: loads these packages by itself and reports broken packages.
PACKAGES = "placement_sched.packages"
#: Groups whose ``auth_type`` names a plugin of keystoneauth with further options. In files of nova
#: and other services, many other groups have these options.
KEYSTONE_GROUPS = frozenset({"keystone_authtoken", "neutron"})
#: Current and former groups of oslo.messaging that this service does not use. They are not reported
#: as misspelt names of used groups.
_UNUSED = ("amqp", "metrics", "tracing", "zmq")
MESSAGING_GROUPS = frozenset(f"oslo_messaging_{name}" for name in _UNUSED)
#: Minimum similarity (0 to 1) of an unknown name to an option for the name to count as misspelt.
#: The names of nova's other options are less similar.
_MIN_SIMILARITY = 0.8
#: The sections with the connections of nova's databases.
_NOVA_DATABASES = ("api_database", "database")


class Catalogue:
    """Options of configuration files, found by current or deprecated names.

    ``conf`` adds the options of third-party plugins. The names of options have underscores.
    """

    def __init__(self, conf: Conf) -> None:
        self.options: dict[str, dict[str, cfg.Opt]] = {}
        self._older: dict[tuple[str, str], tuple[str, cfg.Opt]] = {}
        for group, names in _list_global_options():
            self._add(group, map(cfg.Opt, names))
        import_oslo_messaging()  # imports it without its warnings
        for namespace in NAMESPACES:
            for announced in entry_points(group="oslo.config.opts", name=namespace):
                for group, options in announced.load()():
                    self._add(str(getattr(group, "name", group) or "DEFAULT"), options)
        for group, members in conf.registered.items():
            self._add(group, members.values())

    def find(self, group: str, name: str) -> tuple[str, cfg.Opt] | None:
        """Return the option of a name or deprecated name with its group, or None."""
        option = self.options.get(group, {}).get(name)
        return self._older.get((group, name)) if option is None else (group, option)

    def has_group(self, group: str) -> bool:
        """Return whether an option has this group, or had it formerly."""
        former_groups = (former for former, _ in chain(self._older, WITHOUT_MEANING))
        return group in self.options or group in former_groups

    def add_keystone_plugin(self, group: str, auth_type: str) -> None:
        """Add options of an ``auth_type``, or raise :class:`ConfigurationError`."""
        check_installed(group, auth_type)
        try:
            options = keystone_loading.get_auth_plugin_conf_options(auth_type)
        except Exception as broken:
            reason = " ".join(str(broken).split())
            raise ConfigurationError(f"[{group}] auth_type {auth_type}: {reason}") from broken
        self._add(group, options)

    def _add(self, group: str, options: Iterable[cfg.Opt]) -> None:
        for option in options:
            self.options.setdefault(group, {})[option.dest] = option
            for name in list_names(option, group, option.dest)[1:]:
                self._older[name] = (group, option)


def _list_global_options() -> Iterator[tuple[str, list[str]]]:
    """Yield groups of ``cfg.CONF``, which has no public types of options."""
    for name in cfg.CONF:
        try:
            members = cfg.CONF[name]
        except (cfg.Error, ValueError):  # an option with a wrong value
            members = None
        is_group = isinstance(members, cfg.ConfigOpts.GroupAttr)
        yield (name, list(members or ())) if is_group else ("DEFAULT", [name])


@dataclass(frozen=True, slots=True)
class Problem:
    """A problem, which is ``fatal`` if it prevents the start of the service."""

    place: Place | None
    text: str
    fatal: bool = True
    group: str = ""

    def __str__(self) -> str:
        kind = "error" if self.fatal else "warning"
        return f"{self.place}: {kind}: {self.text}" if self.place else f"{kind}: {self.text}"


def check_lines(
    conf: Conf, environment: Mapping[str, str], settings: Settings | None = None
) -> list[Problem]:
    """Check configuration lines and variables ``OS_<GROUP>__<OPTION>``.

    ``conf`` has the options of third-party plugins. ``settings`` are the values, or None if they
    cannot be read. Without ``settings``, no unknown section counts as a policy.
    """
    conf.register_missing(CONF)  # some plugins register options when they are instantiated
    catalogue = Catalogue(conf)
    written = sorted(
        chain(*conf.sections.values()), key=lambda line: (line.file_number, line.place.line)
    )
    for variable, value in sorted(environment.items()):
        group, separator, name = variable.removeprefix("OS_").partition("__")
        group = "DEFAULT" if group == "DEFAULT" else group.lower()
        # Other programs also use OS_.
        if variable.startswith("OS_") and separator and catalogue.has_group(group):
            written.append(sources.build_assignment(variable, group, name.lower(), value))
    unlisted = {} if settings is None else _find_unlisted_policies(settings)
    return list(_check_lines(written, catalogue, unlisted))


def _check_lines(
    written: Sequence[Assignment], catalogue: Catalogue, unlisted: Mapping[str, str | None]
) -> Iterator[Problem]:
    faults: dict[Place, Problem] = {}
    for line in written:
        if line.group in KEYSTONE_GROUPS and line.dest == "auth_type":
            fault = _find_fault(catalogue.add_keystone_plugin, line.group, line.value)
            if fault is not None:
                faults[line.place] = Problem(line.place, fault.problem, group=line.group)
    listed = [
        each.value for each in written if (each.group, each.dest) == ("scheduler", "policies")
    ]
    # The last line overrides the lines above it.
    sections = {name.strip().lower() for value in listed[-1:] for name in value.split(",")}
    for line in written:
        if line.place in faults:
            yield faults[line.place]
        if option := catalogue.find(line.group, line.dest):
            yield from _check_line(line, *option)
        elif catalogue.has_group(line.group):
            yield _describe_unknown_option(line, catalogue)
        elif line.group not in sections and line.place.line:
            sections.add(line.group)
            yield from _check_unknown_group(line, catalogue, unlisted)


def _check_unknown_group(
    line: Assignment, catalogue: Catalogue, unlisted: Mapping[str, str | None]
) -> Iterator[Problem]:
    text, is_foreign = f"unknown group [{line.group}]", line.group in MESSAGING_GROUPS
    near = () if is_foreign else find_nearest(line.group, catalogue.options, alike=_MIN_SIMILARITY)
    problem = partial(Problem, line.heading)
    if near:
        yield problem(f"{text}{format_suggestion(near, '[{}]'.format)}", fatal=False)
    elif line.group not in unlisted:
        yield problem(f"{text}, its options are not used", fatal=False)
    elif reason := unlisted[line.group]:
        yield problem(f"{text}, and it cannot be a policy: {reason}", fatal=False)


def _check_line(line: Assignment, group: str, option: cfg.Opt) -> Iterator[Problem]:
    has_old_name = (line.group, line.dest) != (group, option.dest)
    if has_old_name and not isinstance(option, AliasedBoolOpt):
        text = f"[{line.group}] {line.name} is a deprecated name of [{group}] {option.dest}"
        yield Problem(line.place, text, fatal=False)
    elif option.deprecated_for_removal:
        reason = f": {option.deprecated_reason}" if option.deprecated_reason else ""
        text = f"[{line.group}] {line.name} will be removed{reason}"
        yield Problem(line.place, text, fatal=False)
    if "$" not in line.value:  # oslo.config replaces $name by the value of another option on access
        try:
            sources.convert_value(option, line.value)
        except ValueError as wrong:
            text = sources.describe_wrong_value(line, option, wrong)
            yield Problem(line.place, text, group=line.group)


def _describe_unknown_option(line: Assignment, catalogue: Catalogue) -> Problem:
    problem = partial(Problem, line.place, fatal=False, group=line.group)
    unused = WITHOUT_MEANING.get((line.group, line.dest))
    if unused is not None:
        return problem(f"[{line.group}] {line.name} is ignored: {unused}")
    text = f"there is no option [{line.group}] {line.name}"
    elsewhere = [
        f"[{group}]"
        for group, options in catalogue.options.items()
        # Options of libraries in ``cfg.CONF`` have no type of their own.
        if group not in KEYSTONE_GROUPS
        and line.group not in _NOVA_DATABASES  # nova's own pools
        and type(options.get(line.dest, cfg.Opt("x"))) is not cfg.Opt
    ]
    if elsewhere:
        return problem(f"{text}, but it exists in {' and '.join(elsewhere)}")
    names = catalogue.options.get(line.group, ())
    if near := find_nearest(line.dest, names, alike=_MIN_SIMILARITY):
        return problem(f"{text}{format_suggestion(near, str)}")
    return problem(f"{text} here, so it is not used")


def _find_fault(check: Callable[..., object], *args: object) -> ConfigurationError | None:
    try:
        check(*args)
    except ConfigurationError as wrong:
        return wrong
    return None


def _build_problem(wrong: ConfigurationError, group: str = "") -> Problem:
    return Problem(wrong.place, wrong.problem, group=group)


def check_parts(settings: Settings, clock: Clock = utcnow) -> None:
    """Check values and policies, and raise :class:`ConfigurationError`."""
    for _, check in _list_checks(settings, clock):
        check()
    get_policies(with_options_file(settings, clock).settings, clock).check()


def _list_checks(settings: Settings, clock: Clock) -> list[tuple[str, Callable[[], object]]]:
    """List the checks of values, each with the group of its service or ""."""
    return [
        ("", partial(build_database_url, settings)),
        ("", partial(get_plugins, settings, clock)),
        ("", extra_specs.list_validators),
        ("neutron", partial(create_neutron_client, settings)),
        ("", partial(create_notifier, settings)),
        ("", partial(_check_disabled_extensions, settings)),
    ]


def _check_disabled_extensions(settings: Settings) -> None:
    names = list(load_entry_points())  # also of absent packages, which may be disabled
    for name in settings.DEFAULT.disabled_extensions:
        if name not in names:
            suggestion = suggest_name("extension", name, names)
            raise ConfigurationError(
                f"[DEFAULT] disabled_extensions: no extension {name} is installed{suggestion}"
            )


def check_settings(settings: Settings) -> list[Problem]:
    """Check values that have the right type but may still be wrong.

    Checks the URLs of databases, plugins, extra spec validators, neutron's address, notifications
    and, if these options are valid, ``[scheduler] json_config_location``.
    """
    urls = [(name, getattr(settings, name).connection) for name in _NOVA_DATABASES]
    checks = _list_checks(settings, utcnow)
    checks += [("", partial(parse_url, url, f"[{name}] connection")) for name, url in urls if url]
    faults = [(group, fault) for group, check in checks if (fault := _find_fault(check))]
    # The check of plugins above stops at the first option with an error.
    faults += (("", error) for error in find_class_errors(settings))
    by_text = {
        part.detail: _build_problem(part, group)
        for group, fault in faults
        for part in fault.parts or [fault]
    }
    problems = list(by_text.values())
    if problems:
        return problems
    try:
        return [Problem(None, line, fatal=False) for line in with_options_file(settings).ignored]
    except ConfigurationError as wrong:
        return [_build_problem(wrong)]


def list_extension_warnings(settings: Settings) -> list[str]:
    """List the warnings of extensions about valid settings."""
    checks = load_hooks("config_check", settings.DEFAULT.disabled_extensions)
    return [warning for check in checks for warning in check(settings)]


def list_warnings(settings: Settings) -> list[str]:
    """List the PCI aliases that no request can use, also of valid policies."""
    policies = get_policies(settings)
    by_section = {"": settings} | {
        f"[{name}]: ": policies.get(name).settings
        for name in policies.names
        if policies.is_usable(name) and ("pci", "alias") in policies.get(name).overrides
    }
    return [
        f"{section}{problem}"
        for section, values in by_section.items()
        for problem in list_alias_problems(read_pci_aliases(values))
    ]


def list_plugin_packages() -> list[str]:
    """List the names and versions of other packages that are loaded.

    Their entry points name plugins, attributes of hosts, validators or extensions.
    """
    groups = (ENTRY_POINT_GROUP, extra_specs.GROUP, *ENTRY_POINT_GROUPS)
    packages = {point.dist for group in groups for point in entry_points(group=group)}
    return sorted(
        f"{each.name} {each.version}" for each in packages if each and each.name != _PACKAGE
    )


def log_warnings(settings: Settings, of_extensions: Iterable[str] = ()) -> None:
    """Log the warnings of a start, once the log is set up.

    Warnings are options without effect, PCI aliases that no request can use, and the warnings
    ``of_extensions`` about plugins.
    """
    # The checks before have run plugins, and the processes of the service inherit their names.
    log_missing_once.cache_clear()
    for sentence in list_absent_extensions():
        LOG.info("%s", sentence)
    if packages := list_plugin_packages():
        LOG.info("packages whose plugins or extensions are loaded: %s", ", ".join(packages))
    for warning in of_extensions:
        LOG.warning("plugin: %s", warning)
    for option, reason in WITHOUT_MEANING.items():
        names, environment = [option], settings.conf.environment
        if line := sources.find_assignment(settings.sections, names, environment):
            LOG.warning("%s: [%s] %s is ignored: %s", line.place, *option, reason)
    for warning in list_warnings(settings):
        LOG.warning("%s", warning)
    if silence := logs.check_destination(settings.conf):
        sys.stderr.write(f"placement-sched: {silence}\n")


def check_policies(settings: Settings) -> list[Problem]:
    """Check the lines of each listed policy, and then its values as a whole."""
    if fault := _find_fault(OptionNames, settings):
        return [_build_problem(fault)]
    policies, option_names = get_policies(settings), OptionNames(settings)
    problems: list[Problem] = []
    for name in dict.fromkeys(policies.names) if policies.named else ():
        lines = () if name == DEFAULT_POLICY else settings.sections.get(name, ())
        faults = [
            fault
            for each in lines
            if (fault := _find_fault(option_names.check_line, each, settings))
        ]
        if not faults and (fault := _find_fault(policies.check_section, name)):
            faults = [fault]
        problems += map(_build_problem, faults)
    return problems


def _find_unlisted_policies(settings: Settings) -> Mapping[str, str | None]:
    """Map sections that aggregates may name as policies to their errors.

    The error of a valid section is None. A section without any known option, such as a section of
    another service, is omitted. If ``[scheduler] policies`` is set, the map is empty.
    """
    policies = get_policies(settings)
    try:
        names = OptionNames(settings)
    except ConfigurationError:
        return {}
    sections = {
        name: _find_fault(policies.get, name)
        for name in (() if policies.named else policies.unlisted)
        if any(map(names.has_meaning, settings.sections[name]))
    }
    return {name: fault.detail if fault else None for name, fault in sections.items()}
