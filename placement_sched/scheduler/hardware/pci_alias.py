"""PCI aliases: what ``[pci] alias`` says of the devices that flavors name.

Source: nova's documentation, "Configuration Options" (``[pci] alias``), "Attaching physical PCI
devices to guests" and "PCI tracking in Placement".
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

from oslo_utils.strutils import bool_from_string

from placement_sched.errors import ConfigurationError

#: How near a PCI device must be to the instance's NUMA nodes.
AFFINITY_POLICIES = ("required", "legacy", "preferred", "socket")
_ID = "[0-9a-fA-F]{4}"
#: The keys of an alias, and what each may say.
_VALUES: Mapping[str, re.Pattern[str]] = MappingProxyType(
    {
        "name": re.compile(r".{1,256}", re.DOTALL),
        "capability_type": re.compile("pci"),
        "product_id": re.compile(_ID),
        "vendor_id": re.compile(_ID),
        "device_type": re.compile("type-PCI|type-PF|type-VF"),
        "numa_policy": re.compile("|".join(AFFINITY_POLICIES)),
        "resource_class": re.compile(r".*", re.DOTALL),
        "traits": re.compile(r".*", re.DOTALL),
        "live_migratable": re.compile(r".*", re.DOTALL),
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Alias:
    """A name for devices, each of which is as one of ``specs`` says, and how near they must be.

    A spec has ``vendor_id``, ``product_id``, ``dev_type``, ``capability_type``,
    ``live_migratable`` (``true`` or ``false``), ``resource_class`` and ``traits``, as far as the
    alias has them.
    """

    name: str
    numa_policy: str
    specs: tuple[Mapping[str, str], ...]


def aliases_of(texts: Sequence[str], *, in_placement: bool) -> Mapping[str, Alias]:
    """Return the aliases that the lines of ``[pci] alias`` describe, each a JSON object.

    Lines of one name are alternatives. With ``in_placement``, which is ``[filter_scheduler]
    pci_in_placement``, there may be none, and a resource class may stand for the ids. Raises
    :class:`~placement_sched.errors.ConfigurationError` telling the line and what is wrong.
    """
    aliases: dict[str, Alias] = {}
    for alias in map(_alias, texts):
        first = aliases.get(alias.name)
        aliases[alias.name] = alias if first is None else _joined(first, alias)
    for alias in aliases.values():
        _check(alias, in_placement=in_placement)
    return aliases


def _alias(text: str) -> Alias:
    """Return the alias of one line."""
    spec = _object(text)
    for key, value in spec.items():
        if key not in _VALUES:
            raise _wrong(text, f"there is no key {key!r}; there are {', '.join(_VALUES)}")
        if not isinstance(value, str) or not _VALUES[key].fullmatch(value):
            raise _wrong(text, f"{key} cannot be {value!r}")
    if "name" not in spec:
        raise _wrong(text, "it has no name")
    return Alias(
        name=spec["name"].strip(),
        numa_policy=spec.get("numa_policy", "legacy"),
        specs=(MappingProxyType(dict(_device(text, spec))),),
    )


def _object(text: str) -> Mapping[str, Any]:
    try:
        spec = json.loads(text)
    except (ValueError, RecursionError) as wrong:
        raise _wrong(text, f"it is no JSON: {wrong}") from None
    if not isinstance(spec, dict):
        raise _wrong(text, "it is no JSON object")
    return spec


def _device(text: str, spec: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield what is said of the device itself, under the names that pools of devices have."""
    for key, value in spec.items():
        if key == "live_migratable":
            yield key, _true_or_false(text, value)
        elif key == "device_type":
            yield "dev_type", value
        elif key not in ("name", "numa_policy"):
            yield key, value


def _true_or_false(text: str, value: str) -> str:
    try:
        return str(bool_from_string(value, strict=True)).lower()
    except ValueError:
        raise _wrong(text, f"live_migratable is neither yes nor no: {value!r}") from None


def _joined(first: Alias, other: Alias) -> Alias:
    """Return an alias with the devices of another line of its name as well."""
    types = {spec.get("dev_type") for alias in (first, other) for spec in alias.specs}
    if first.numa_policy != other.numa_policy:
        raise _wrong(first.name, "its lines differ in numa_policy")
    if len(types) > 1 or None in types:
        raise _wrong(first.name, "its lines must have a device_type, and all the same")
    return replace(first, specs=first.specs + other.specs)


def _check(alias: Alias, *, in_placement: bool) -> None:
    """Raise where placement cannot be asked for the alias, or devices cannot be told by it."""
    if in_placement and len(alias.specs) > 1:
        raise _wrong(
            alias.name,
            "it has several lines, which [filter_scheduler] pci_in_placement does not allow; "
            "give the devices one resource_class",
        )
    if not all(_is_told(spec, in_placement=in_placement) for spec in alias.specs):
        wanted = " or a resource_class" if in_placement else ""
        raise _wrong(alias.name, f"it must have vendor_id and product_id{wanted}")


def _is_told(spec: Iterable[str], *, in_placement: bool) -> bool:
    keys = set(spec)
    return {"vendor_id", "product_id"} <= keys or (in_placement and "resource_class" in keys)


def _wrong(alias: str, why: str) -> ConfigurationError:
    return ConfigurationError(f"[pci] alias {alias!r}: {why}")
