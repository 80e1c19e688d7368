# SPDX-License-Identifier: Apache-2.0
"""``nova.i18n``: messages are not translated."""


def _(text: str) -> str:
    """Return a message unchanged."""
    return text


_LC = _LE = _LI = _LW = _


def translate(value: object, user_locale: str | None = None) -> object:
    """Return a message unchanged."""
    return value


def install(domain: str) -> None:
    """Do nothing: ``_`` is a builtin already."""
