"""``trait:`` properties of an image."""

from placement_sched.model.ignored import IMAGE
from placement_sched.model.image import Image
from placement_sched.scheduler.groups.gathering import Groups
from placement_sched.scheduler.groups.symbols import checked_name


def add_image_traits(groups: Groups, image: Image) -> None:
    """Add the traits that an image requires, to the group without suffix: images know no other.

    Raises :class:`~placement_sched.errors.Invalid` naming a property that names no trait. Other
    values than ``required`` say nothing, as in nova, which does not log them either.
    """
    for name in sorted(image.required_traits):
        if not name:
            groups.ignore(IMAGE, "trait:", "required", "the name of a trait after the colon")
            continue
        source = f"image property {f'trait:{name}'!r}"
        groups.plain.require(checked_name(source, name), source)
