"""Checks the sections of scheduler policies line by line."""

from collections.abc import Iterator, Mapping

from placement_sched.config.aliased import AliasedBoolOpt
from placement_sched.config.lines import Assignment, Place
from placement_sched.config.origin import place_in_files
from placement_sched.config.settings import Settings, registered_options
from placement_sched.errors import ConfigurationError
from placement_sched.operations.config_check import Problem
from placement_sched.scheduler.policies.registry import policies_for
from placement_sched.scheduler.policies.sections import (
    Names,
    Override,
    lines_of,
    says_something,
    settings_under,
)


def check_policies(settings: Settings) -> list[Problem]:
    """Return what is wrong with the policies that ``[scheduler] policies`` lists."""
    try:
        names = Names(settings)
    except ConfigurationError as wrong:
        return [_problem(wrong, place_in_files(settings, "scheduler", "policy_overrides"))]
    policies = policies_for(settings)
    if not policies.named:
        return []
    return [
        problem
        for name in dict.fromkeys(policies.names)
        for problem in _of_policy(name, settings, names)
    ]


def unlisted_policies(settings: Settings) -> Mapping[str, str | None]:
    """Return the sections that would be policies if an aggregate named them.

    Each with why it could not be used, or None. Sections that set nothing of ours, as other
    services' do, are left out, and all of them where the policies are listed.
    """
    policies = policies_for(settings)
    try:
        names = Names(settings)
    except ConfigurationError:
        return {}
    found: dict[str, str | None] = {}
    for name in () if policies.named else policies.unlisted:
        if says_something(settings.sections[name], names):
            try:
                policies.get(name)
            except ConfigurationError as wrong:
                found[name] = wrong.detail
            else:
                found[name] = None
    return found


def _of_policy(name: str, settings: Settings, names: Names) -> Iterator[Problem]:
    try:
        lines = lines_of(name, settings)
    except ConfigurationError as wrong:
        yield _problem(wrong, place_in_files(settings, "scheduler", "policies"))
        return
    problems = [problem for line in lines for problem in _of_line(line, settings, names)]
    yield from problems
    if any(problem.fatal for problem in problems):
        return
    try:
        policies_for(settings).get(name)
    except ConfigurationError as wrong:
        # A value of the right type, of which the policy's plugins cannot be made.
        places = [line.place for line in lines if wrong.detail.startswith(f"{line.place}: ")]
        yield _problem(wrong, places[0] if places else None)


def _of_line(line: Assignment, settings: Settings, names: Names) -> Iterator[Problem]:
    try:
        group, name = names.meant_by(line)
    except ConfigurationError as wrong:
        yield _problem(wrong, line.place)
        return
    option = registered_options(settings.conf)[group][name]
    written = line.name.replace("-", "_").replace(".", "_")
    aliased = isinstance(option, AliasedBoolOpt)
    if written not in {name, f"{group}_{name}"} and not aliased:
        text = f"[{line.group}] {line.name} is a deprecated name of [{group}] {name}"
        yield Problem(line.place, text, fatal=False)
    try:
        settings_under(settings, [Override(group, name, line.value, line.place)])
    except ConfigurationError as wrong:
        reason = "" if option.secret else f": {wrong.detail.partition(f'{group}.{name}: ')[2]}"
        yield Problem(line.place, f"[{line.group}] {line.name} has a wrong value{reason}")


def _problem(wrong: ConfigurationError, place: Place | None) -> Problem:
    return Problem(place, wrong.detail.removeprefix(f"{place}: "))
