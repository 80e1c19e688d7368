"""Importing code that is not ours, and telling in one line what is wrong with it."""

from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from types import ModuleType
from typing import TypeVar

from placement_sched.config.brought import noting_options

Loaded = TypeVar("Loaded")


def loaded(load: Callable[[], Loaded]) -> Loaded:
    """Return what strangers' code gives; the options that it registers are noted.

    Raises whatever that code raises, and :class:`RuntimeError` where it would end the process.
    """
    try:
        with noting_options():
            return load()
    except SystemExit as leaving:
        raise RuntimeError(f"it ends the process with status {leaving.code}") from leaving


def one_line(failure: Exception | str) -> str:
    """Return what a failure says, without line breaks; its class's name where it says nothing."""
    return " ".join(str(failure).split()) or type(failure).__name__


def classes_of(module: ModuleType, base: type) -> list[str]:
    """Return the names of the classes below ``base`` that a module has."""
    return [name for name, value in vars(module).items() if _is_below(value, base)]


def _is_below(value: object, base: type) -> bool:
    return isinstance(value, type) and issubclass(value, base) and value is not base


def suggestion(name: str, known: Iterable[str]) -> str:
    """Return the end of a sentence that tells the nearest known name, or nothing."""
    return _meant(_nearest(name, known, 0.4))


def path_suggestion(path: str, known: Mapping[str, str]) -> str:
    """Return the like for a dotted path, given paths by the name of their class.

    A class that is misspelt, or named without its module, is meant rather than one whose path is
    alike.
    """
    near = _nearest(path.rpartition(".")[2], known, 0.8)
    return _meant(known[near]) if near else _meant(_nearest(path, known.values(), 0.4))


def _nearest(name: str, known: Iterable[str], cutoff: float) -> str | None:
    return next(iter(get_close_matches(name, list(known), n=1, cutoff=cutoff)), None)


def _meant(near: str | None) -> str:
    return f"; did you mean {near!r}?" if near else ""
