# SPDX-License-Identifier: Apache-2.0
"""Changes of a request that would let a host pass a filter."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from placement_sched.model.flavor import Flavor
from placement_sched.model.image import ImageProperties
from placement_sched.model.names import shorten_names
from placement_sched.model.request_spec import RequestSpec
from placement_sched.model.verdict import SuggestedChange

#: Names in the text and in the values of a change: a request may have a thousand.
_MAX_NAMES_IN_TEXT, _MAX_NAMES_IN_VALUES = 10, 20


def without_hint(spec: RequestSpec, name: str) -> SuggestedChange:
    """Return the change to a request without a scheduler hint."""
    hints = {key: value for key, value in spec.scheduler_hints.items() if key != name}
    words = f"remove the scheduler hint {name} from the request"
    return SuggestedChange(
        "drop_hint", words, {"hint": name}, spec=replace(spec, scheduler_hints=hints)
    )


def shorten(names: Sequence[str]) -> str:
    """Join names for a message, with a number in place of the last names."""
    return shorten_names(names, _MAX_NAMES_IN_TEXT)


def list_values(key: str, names: Sequence[str]) -> Mapping[str, Any]:
    """Return the first names under ``key``, and the number of the others under ``more``."""
    more = len(names) - _MAX_NAMES_IN_VALUES
    return {key: list(names[:_MAX_NAMES_IN_VALUES]), **({"more": more} if more > 0 else {})}


def without_extra_specs(spec: RequestSpec, keys: Sequence[str], otherwise: str) -> SuggestedChange:
    """Return the change to a flavor without some extra specs.

    ``otherwise`` is an alternative for the words of the change, such as a change of the host.
    """
    flavor, removed = spec.flavor, frozenset(keys)
    remaining = {key: value for key, value in flavor.extra_specs.items() if key not in removed}
    return SuggestedChange(
        "drop_extra_specs",
        f"remove extra spec {shorten(keys)} from the flavor, or {otherwise}",
        list_values("keys", keys),
        spec=replace(spec, flavor=replace(flavor, extra_specs=remaining)),
    )


def without_properties(spec: RequestSpec, keys: Collection[str], words: str) -> SuggestedChange:
    """Return the change to an image without some properties."""
    properties = spec.image.properties
    remaining = {key: value for key, value in properties.to_dict().items() if key not in keys}
    return SuggestedChange(
        "change_image_properties",
        words,
        list_values("keys", [key for key in keys if key in properties]),
        spec=replace(spec, image=replace(spec.image, properties=ImageProperties(remaining))),
    )


def with_flavor(spec: RequestSpec, smaller: Flavor, field: str, unit: str) -> SuggestedChange:
    """Return the change to a flavor with a smaller value of ``field``."""
    maximum = getattr(smaller, field)
    words = f"request at most {maximum} {unit}"
    return SuggestedChange("ask", words, {field: maximum}, spec=replace(spec, flavor=smaller))
