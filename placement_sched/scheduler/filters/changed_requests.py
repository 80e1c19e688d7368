"""Changes of a request after which a filter would let a host pass."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from placement_sched.model.flavor import Flavor
from placement_sched.model.image import ImageProperties
from placement_sched.model.names import in_short
from placement_sched.model.request_spec import RequestSpec
from placement_sched.model.verdict import Remedy

#: Names in the words of a change, and in its values; a request may have a thousand.
_SHOWN, _MOST = 10, 20


def without_hint(spec: RequestSpec, name: str) -> Remedy:
    """Return the change that leaves out a scheduler hint."""
    hints = {key: value for key, value in spec.scheduler_hints.items() if key != name}
    words = f"ask without the scheduler hint {name}"
    return Remedy("drop_hint", words, {"hint": name}, spec=replace(spec, scheduler_hints=hints))


def shown(names: Sequence[str]) -> str:
    """Return names as reasons and the words of a change have them."""
    return in_short(names, _SHOWN)


def listed(key: str, names: Sequence[str]) -> Mapping[str, Any]:
    """Return names as the values of a change have them: ``more`` says how many are left out."""
    more = len(names) - _MOST
    return {key: list(names[:_MOST]), **({"more": more} if more > 0 else {})}


def without_extra_specs(spec: RequestSpec, keys: Sequence[str], otherwise: str) -> Remedy:
    """Return the change that leaves out extra specs of the flavor; ``otherwise`` is another one."""
    flavor, out = spec.flavor, frozenset(keys)
    left = {key: value for key, value in flavor.extra_specs.items() if key not in out}
    return Remedy(
        "drop_extra_specs",
        f"ask without the flavor's extra spec {shown(keys)}, or {otherwise}",
        listed("keys", keys),
        spec=replace(spec, flavor=replace(flavor, extra_specs=left)),
    )


def without_properties(spec: RequestSpec, keys: Collection[str], words: str) -> Remedy:
    """Return the change that leaves out properties of the image, or has others."""
    given = spec.image.properties
    left = {key: value for key, value in given.to_dict().items() if key not in keys}
    return Remedy(
        "change_image_properties",
        words,
        listed("keys", [key for key in keys if key in given]),
        spec=replace(spec, image=replace(spec.image, properties=ImageProperties(left))),
    )


def with_flavor(spec: RequestSpec, smaller: Flavor, field: str, unit: str) -> Remedy:
    """Return the change that asks for less by a field of the flavor, in words with its unit."""
    most = getattr(smaller, field)
    words = f"ask for at most {most} {unit}"
    return Remedy("ask", words, {field: most}, spec=replace(spec, flavor=smaller))
