"""What a flavor and an image may both set: extra spec ``hw:key`` and image property ``hw_key``."""

from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from oslo_utils.strutils import bool_from_string

from placement_sched.errors import Invalid
from placement_sched.model.flavor import Flavor
from placement_sched.model.image import Image


def of_flavor(key: str, prefix: str = "hw") -> str:
    """Return the name that errors give the extra spec of this key."""
    return f"flavor extra spec '{prefix}:{key}'"


def of_image(key: str, prefix: str = "hw") -> str:
    """Return the name that errors give the image property of this key."""
    return f"image property '{prefix}_{key}'"


def one_of(value: str, known: Collection[str], where: str) -> str:
    """Return the value; raises :class:`Invalid` naming ``where`` it is set if it is not known."""
    if value not in known:
        raise Invalid(f"{where}: expected {' or '.join(known)}, got {value!r}")
    return value


@dataclass(frozen=True)
class FlavorImage:
    """A flavor and an image, read together: the base of what they request.

    Its methods, and the properties of its children, raise :class:`Invalid`, naming the keys, for a
    value that is not known and for two that contradict each other.
    """

    flavor: Flavor
    image: Image

    @property
    def has_stateless_firmware(self) -> bool:
        """Return whether firmware that keeps nothing is requested; it counts with UEFI only."""
        get = self.image.properties.get
        return get("hw_firmware_type") == "uefi" and bool(get("hw_firmware_stateless"))

    def values(self, key: str, prefix: str = "hw") -> tuple[str | None, Any]:
        """Return the value of the flavor and that of the image; None for one that is not set."""
        by_flavor = self.flavor.extra_specs.get(f"{prefix}:{key}")
        return by_flavor, self.image.properties.get(f"{prefix}_{key}")

    def source(self, key: str, prefix: str = "hw") -> str:
        """Return where a value is set: in the flavor if it has one, else in the image."""
        by_flavor, by_image = self.values(key, prefix)
        in_flavor = by_flavor or by_image is None
        return of_flavor(key, prefix) if in_flavor else of_image(key, prefix)

    def conflict(self, key: str, why: str, prefix: str = "hw") -> Invalid:
        """Return the error of two values that contradict each other; ``why`` is the rule."""
        by_flavor, by_image = self.values(key, prefix)
        return Invalid(
            f"{of_flavor(key, prefix)} is {by_flavor!r}, {of_image(key, prefix)} is "
            f"{by_image!r}: {why}"
        )

    def agreed(
        self, key: str, known: Collection[str] | None = None, prefix: str = "hw"
    ) -> str | None:
        """Return the value of flavor or image, None where neither sets one.

        Raises :class:`Invalid` for two values, and for one that is not among the ``known``.
        """
        by_flavor, by_image = self.values(key, prefix)
        if by_flavor and by_image and by_flavor != by_image:
            raise self.conflict(key, "they must be equal", prefix)
        value = by_flavor or by_image or None
        if value is None or known is None:
            return value
        return one_of(value, known, self.source(key, prefix))

    def agreed_flag(self, key: str) -> bool | None:
        """Return the boolean of flavor or image, if any; an extra spec that is not one is false."""
        by_flavor, by_image = self.values(key)
        if by_flavor is None:
            return None if by_image is None else bool(by_image)
        flag = bool(bool_from_string(by_flavor))
        if by_image is not None and bool(by_image) != flag:
            raise self.conflict(key, "they must be equal")
        return flag


def agreed(
    key: str, known: Collection[str] | None = None, prefix: str = "hw"
) -> "cached_property[str | None]":
    """Return a property of a :class:`FlavorImage`: a value that the two agree on, read once."""
    return cached_property(lambda both: both.agreed(key, known, prefix))


def agreed_flag(key: str) -> "cached_property[bool]":
    """Return a property of a :class:`FlavorImage`: whether one of the two requests it."""
    return cached_property(lambda both: bool(both.agreed_flag(key)))
