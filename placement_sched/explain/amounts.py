# SPDX-License-Identifier: Apache-2.0
"""Titles of resource classes, numbers with nouns, and amounts with units."""

#: Titles of resource classes whose unit is in their name.
_TITLES = {"MEMORY_MB": "Memory", "DISK_GB": "Disk"}
#: The units of these classes, as exponents of 1024 above MiB.
_EXPONENTS = {"MEMORY_MB": 0, "DISK_GB": 1}
_UNITS = ("MiB", "GiB", "TiB", "PiB")


def format_class(name: str) -> str:
    """Return the title of a resource class (``Memory`` for ``MEMORY_MB``)."""
    return _TITLES.get(name, name)


def format_amount(amount: float, resource_class: str) -> str:
    """Format an amount of a resource class, such as ``1.5 TiB`` or ``1,024``."""
    return " ".join(filter(None, format_number(amount, resource_class)))


def format_number(amount: float, resource_class: str) -> tuple[str, str]:
    """Return the number of :func:`format_amount`, and its unit or ""."""
    if resource_class not in _EXPONENTS:
        return f"{amount:,}", ""
    exponent, value = _EXPONENTS[resource_class], float(amount)
    while abs(value) >= 1024 and exponent < len(_UNITS) - 1:
        value, exponent = value / 1024, exponent + 1
    text = f"{value:,.0f}" if value.is_integer() or abs(value) >= 100 else f"{value:,.1f}"
    return text, _UNITS[exponent]
