"""An image as plugins see it (nova's ImageMeta attribute names)."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from placement_sched.model.flavor import TRAIT_KEY
from placement_sched.model.image_properties import ImageProperties, properties_from
from placement_sched.model.nova_object import NovaObject

_PLAIN = (
    "id",
    "name",
    "status",
    "visibility",
    "owner",
    "size",
    "virtual_size",
    "disk_format",
    "container_format",
    "min_ram",
    "min_disk",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Image(NovaObject):
    """What an instance boots: ``min_ram`` in MB, ``min_disk`` in GB, sizes in bytes."""

    id: str | None = None
    name: str | None = None
    status: str | None = None
    visibility: str | None = None
    owner: str | None = None
    size: int | None = None
    virtual_size: int | None = None
    disk_format: str | None = None
    container_format: str | None = None
    min_ram: int = 0
    min_disk: int = 0
    tags: tuple[str, ...] = ()
    properties: ImageProperties = field(default_factory=ImageProperties)
    #: Traits that properties ``trait<suffix>:X=required`` name: of no group here, as in nova, but
    #: said all the same.
    suffixed_traits: frozenset[str] = frozenset()

    @classmethod
    def from_document(cls, document: Mapping[str, Any] | None) -> Self:
        """Return the image that a request's JSON object describes; null is one without properties.

        Raises :class:`~placement_sched.errors.Invalid` naming a property whose value cannot be.
        """
        if document is None:
            return cls()
        given = {name: document[name] for name in _PLAIN if document.get(name) is not None}
        return cls(
            **given,
            tags=tuple(document.get("tags") or ()),
            properties=properties_from(document.get("properties") or {}),
            suffixed_traits=_suffixed_traits(document.get("properties") or {}),
        )

    @property
    def required_traits(self) -> frozenset[str]:
        """Return the traits its ``trait:X=required`` properties name."""
        return frozenset(self.properties.get("traits_required", ()))


def _suffixed_traits(properties: Mapping[str, Any]) -> frozenset[str]:
    return frozenset(
        match["trait"]
        for key, value in properties.items()
        if value == "required" and (match := TRAIT_KEY.fullmatch(key)) and match["suffix"]
    )
