"""Why a value is not of an option's type, in words that are not Python's."""

import json
from math import isfinite
from typing import TypeVar

from oslo_config import cfg, types

Value = TypeVar("Value")

#: What Python's conversions say of themselves, which oslo.config passes on: what was wanted.
_NOUNS = {"int()": "an integer", "float()": "a number", "to float": "a number"}


def plain_reason(value: object, wrong: Exception) -> str:
    """Return in plain words why ``value`` is not of an option's type, which raised ``wrong``."""
    told = " ".join(str(wrong).split())
    noun = next((noun for python, noun in _NOUNS.items() if python in told), None)
    shown = repr(value) if isinstance(value, str) else json.dumps(value)
    return told if noun is None else f"{shown} is not {noun}"


def countable(option: cfg.Opt, value: Value) -> Value:
    """Return an option's value as it is; raise :class:`ValueError` for a number that is none.

    oslo.config takes ``inf`` and ``nan``, and what is computed of them is no number of JSON's; it
    takes an empty text too, for None, which only an option counts with that may be unset.
    """
    if isinstance(value, float) and not isfinite(value):
        raise ValueError(f"{value} is not a finite number")
    if value is None and option.default is not None and isinstance(option.type, types.Number):
        raise ValueError("an empty text is not a number")
    return value
