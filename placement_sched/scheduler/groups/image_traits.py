"""``trait:`` properties of an image."""

from placement_sched.model.image import Image
from placement_sched.scheduler.groups.gathering import Groups
from placement_sched.scheduler.groups.symbols import checked_name


def add_image_traits(groups: Groups, image: Image) -> None:
    """Add the traits that an image requires, to the group without suffix: images know no other.

    Raises :class:`~placement_sched.errors.Invalid` naming a property that names no trait.
    """
    for name in sorted(image.required_traits):
        source = f"image property {f'trait:{name}'!r}"
        groups.plain.require(checked_name(source, name), source)
