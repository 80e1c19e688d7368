# SPDX-License-Identifier: Apache-2.0
"""``nova.exception``: an exception class for each name that plugins use.

The base classes follow from the name: ``ComputeHostNotFound`` is a ``HostNotFound``, which is a
``NotFound``.
"""

import re
import sys
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from typing import Any

from placement_sched.extensions.nova_plugins.missing import build_missing_error


class NovaException(Exception):
    """Base class of nova's exceptions, with a message built from ``msg_fmt``.

    If ``msg_fmt`` has no place for values, the values are appended.
    """

    msg_fmt = "Unknown error."
    code = 500

    def __init__(self, message: object = None, **kwargs: Any) -> None:
        self.kwargs = kwargs
        self.message = str(message) if message else self._format(kwargs)
        super().__init__(self.message)

    def _format(self, values: Mapping[str, Any]) -> str:
        if "%(" in self.msg_fmt:
            with suppress(KeyError, TypeError, ValueError):
                return self.msg_fmt % values
        listed = ", ".join(f"{name}={value}" for name, value in values.items())
        return f"{self.msg_fmt}: {listed}" if listed else self.msg_fmt

    def format_message(self) -> str:
        """Return the message."""
        return self.message


class NotFound(NovaException):
    """Base class of the errors about objects that do not exist."""

    msg_fmt = "Not found."
    code = 404


class Invalid(NovaException):
    """Base class of the errors about invalid values."""

    msg_fmt = "Invalid value."
    code = 400


@cache
def __getattr__(name: str) -> type[NovaException]:
    if not name[:1].isupper():
        raise build_missing_error(f"nova.exception.{name}")
    return type(name, (_base_of(name),), {"__module__": __name__, "msg_fmt": name})


def _base_of(name: str) -> type[NovaException]:
    if not name.endswith("NotFound"):
        return Invalid if "Invalid" in name else NovaException
    _, *words = re.findall("[A-Z][^A-Z]*", name)
    base: type[NovaException] = getattr(sys.modules[__name__], "".join(words))
    return base
