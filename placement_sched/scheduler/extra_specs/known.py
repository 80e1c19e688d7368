"""Every extra spec that is known: of the modules of this folder, and of installed packages."""

import pkgutil
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache, partial
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any

from placement_sched.errors import ConfigurationError, Invalid
from placement_sched.scheduler.extra_specs.validator import ExtraSpecValidator
from placement_sched.scheduler.strange_code import loaded, why

GROUP = "placement_sched.extra_spec_validators"


def check(key: str, value: str) -> None:
    """Raise :class:`Invalid` where a flavor cannot have this extra spec.

    Raises :class:`ConfigurationError` where an installed package's validators cannot be had.
    """
    known = _index()
    validator = known.of(key)
    if validator is not None:
        validator.check(value)
    elif known.has_namespace_of(key):
        raise Invalid(
            f"Validation failed; extra spec '{key}' does not appear to be a valid extra spec."
        )


@cache
def all_validators() -> tuple[ExtraSpecValidator, ...]:
    """Return what is known, by name; what is installed stays while the process runs.

    Raises :class:`ConfigurationError` naming the entry point that is wrong.
    """
    found = [*_shipped(), *_announced()]
    return tuple(sorted(found, key=lambda each: each.name))


@dataclass(frozen=True, slots=True)
class _Index:
    """The validators, ready to be found by key."""

    plain: dict[str, ExtraSpecValidator]
    patterned: list[tuple[re.Pattern[str], ExtraSpecValidator]]
    namespaces: list[re.Pattern[str]]

    def of(self, key: str) -> ExtraSpecValidator | None:
        if key in self.plain:
            return self.plain[key]
        return next((one for pattern, one in self.patterned if pattern.fullmatch(key)), None)

    def has_namespace_of(self, key: str) -> bool:
        namespace, colon, _ = key.partition(":")
        return bool(colon) and any(one.fullmatch(namespace) for one in self.namespaces)


@cache
def _index() -> _Index:
    validators = all_validators()
    namespaces = {one.namespace_pattern for one in validators} - {None}
    return _Index(
        {one.name: one for one in validators if not one.parameters},
        [(one.name_pattern, one) for one in validators if one.parameters],
        [one for one in namespaces if one is not None],
    )


def _shipped() -> Iterable[ExtraSpecValidator]:
    """Yield what the modules of this folder register."""
    for module in pkgutil.iter_modules([str(Path(__file__).parent)], f"{__package__}."):
        register = getattr(import_module(module.name), "register", None)
        if register is not None:
            yield from register()


def _announced() -> Iterable[ExtraSpecValidator]:
    """Yield what installed packages register."""
    for one in sorted(entry_points(group=GROUP), key=lambda each: each.name):
        where = f"entry point {one.name} ({one.value}) of {GROUP}"
        try:
            registered: list[Any] = loaded(partial(_registered_by, one))
        except Exception as failure:
            raise ConfigurationError(f"{where} cannot be loaded: {why(failure)}") from failure
        for validator in registered:
            if not isinstance(validator, ExtraSpecValidator):
                raise ConfigurationError(f"{where}: {validator!r} is no ExtraSpecValidator")
            yield validator


def _registered_by(announced: EntryPoint) -> list[Any]:
    return list(announced.load().register())
