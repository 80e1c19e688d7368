"""A thing that flavor and image may both say: ``hw:key`` the one, ``hw_key`` the other."""

from collections.abc import Collection
from typing import Any

from oslo_utils.strutils import bool_from_string

from placement_sched.errors import Invalid
from placement_sched.model.flavor import Flavor
from placement_sched.model.image import Image


def of_flavor(key: str, prefix: str = "hw") -> str:
    """Return how errors name the extra spec of this key."""
    return f"flavor extra spec '{prefix}:{key}'"


def of_image(key: str, prefix: str = "hw") -> str:
    """Return how errors name the image property of this key."""
    return f"image property '{prefix}_{key}'"


def said(flavor: Flavor, image: Image, key: str, prefix: str = "hw") -> tuple[str | None, Any]:
    """Return what the flavor says and what the image says; None for what is not said."""
    return (
        flavor.extra_specs.get(f"{prefix}:{key}"),
        image.properties.get(f"{prefix}_{key}"),
    )


def place(flavor: Flavor, image: Image, key: str, prefix: str = "hw") -> str:
    """Return where a thing is said: in the flavor if it says something, else in the image."""
    by_flavor, by_image = said(flavor, image, key, prefix)
    if by_flavor or by_image is None:
        return of_flavor(key, prefix)
    return of_image(key, prefix)


def conflict(flavor: Flavor, image: Image, key: str, why: str, prefix: str = "hw") -> Invalid:
    """Return the error of a flavor and an image that contradict each other; ``why`` is the rule."""
    by_flavor, by_image = said(flavor, image, key, prefix)
    return Invalid(
        f"{of_flavor(key, prefix)} says {by_flavor!r}, {of_image(key, prefix)} says "
        f"{by_image!r}: {why}"
    )


def agreed(flavor: Flavor, image: Image, key: str, prefix: str = "hw") -> str | None:
    """Return what flavor or image says, None where neither says anything.

    Raises :class:`Invalid` naming both keys where they say different things.
    """
    by_flavor, by_image = said(flavor, image, key, prefix)
    if by_flavor and by_image and by_flavor != by_image:
        raise conflict(flavor, image, key, "they must say the same", prefix)
    return by_flavor or by_image or None


def agreed_flag(flavor: Flavor, image: Image, key: str) -> bool | None:
    """Return the yes or no of flavor or image, None where neither says one.

    An extra spec that reads as neither is a no. Raises :class:`Invalid` naming both keys where
    one says yes and the other no.
    """
    by_flavor, by_image = said(flavor, image, key)
    if by_flavor is None:
        return None if by_image is None else bool(by_image)
    flag = bool(bool_from_string(by_flavor))
    if by_image is not None and bool(by_image) != flag:
        raise conflict(flavor, image, key, "they must say the same")
    return flag


def one_of(value: str, known: Collection[str], where: str) -> str:
    """Return the value; raises :class:`Invalid` naming ``where`` it stands if it is not known."""
    if value not in known:
        raise Invalid(f"{where}: expected {' or '.join(known)}, got {value!r}")
    return value


def agreed_one_of(
    flavor: Flavor, image: Image, key: str, known: Collection[str], prefix: str = "hw"
) -> str | None:
    """Return what flavor or image says, which must be one of the known values.

    Raises :class:`Invalid` where it is not, or where they say different things.
    """
    value = agreed(flavor, image, key, prefix)
    return None if value is None else one_of(value, known, place(flavor, image, key, prefix))
