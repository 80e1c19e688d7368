# SPDX-License-Identifier: Apache-2.0
"""``nova.exception``: any class that a plugin names, to be raised and caught."""

from functools import cache
from typing import Any


class NovaException(Exception):
    """The base class of nova's exceptions, with ``msg_fmt`` and its values."""

    msg_fmt = "An unknown exception occurred."
    code = 500

    def __init__(self, message: object = None, **kwargs: Any) -> None:
        self.kwargs = kwargs
        self.message = (
            str(message) if message else self.msg_fmt % kwargs if kwargs else self.msg_fmt
        )
        super().__init__(self.message)

    def format_message(self) -> str:
        """Return the message."""
        return self.message


class NotFound(NovaException):
    """The base class of the errors about objects that do not exist."""

    msg_fmt = "Resource could not be found."
    code = 404


@cache
def __getattr__(name: str) -> type[NovaException]:
    if not name[:1].isupper():
        raise AttributeError(f"nova.exception.{name} is not provided here")
    base = NotFound if name.endswith("NotFound") else NovaException
    return type(name, (base,), {"__module__": __name__, "msg_fmt": name})
