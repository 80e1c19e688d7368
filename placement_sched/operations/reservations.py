"""To which flavors and images aggregates are forbidden, as the request filter itself decides."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from itertools import product

from placement_sched.config.settings import Settings
from placement_sched.model.aggregate_check import Reserved
from placement_sched.model.flavor import Flavor
from placement_sched.model.host_aggregate import HostAggregate
from placement_sched.model.image import Image
from placement_sched.model.stored_image import StoredImage
from placement_sched.scheduler.request_filters.forbidden_aggregates import (
    ForbiddenAggregates,
    forbidden_to,
)

#: Names by what they require: thousands of flavors and images ask for few different things.
ByTraits = Mapping[frozenset[str], tuple[str, ...]]


class Reservations:
    """Which of the stored flavors and images may use which of the aggregates."""

    def __init__(
        self,
        settings: Settings,
        aggregates: Iterable[HostAggregate],
        flavors: Iterable[Flavor],
        images: Iterable[StoredImage],
    ) -> None:
        self._filter = ForbiddenAggregates.with_settings(settings)
        self._settings = settings
        self.aggregates = tuple(one for one in aggregates if one.reserving_traits)
        self._flavors = _grouped((one.name, one.required_traits) for one in flavors)
        self._images = _grouped((one.name or one.uuid, _required_of(one)) for one in images)
        self.asked = frozenset(trait for traits in self._flavors for trait in traits) | frozenset(
            trait for traits in self._images for trait in traits
        )

    @property
    def filtering(self) -> bool:
        """Whether the request filter is switched on."""
        return self._filter.enabled(self._settings)

    def each(self) -> tuple[Reserved, ...]:
        """Return for each aggregate who may use it."""
        flavors = {traits: self._forbidden(traits, self.aggregates) for traits in self._flavors}
        images = {traits: self._forbidden(traits, self.aggregates) for traits in self._images}
        return tuple(self._reserved(one, flavors, images) for one in self.aggregates)

    def open_to_any_pair(self, aggregate: HostAggregate) -> bool:
        """Return whether a flavor may use the aggregate, with some image or with none."""
        plain = {frozenset[str](): ("no image",)}
        return any(
            not self._forbidden(of_flavor | of_image, (aggregate,))
            for of_flavor, of_image in product(self._flavors, {**self._images, **plain})
        )

    def _reserved(
        self,
        aggregate: HostAggregate,
        flavors: Mapping[frozenset[str], Collection[str]],
        images: Mapping[frozenset[str], Collection[str]],
    ) -> Reserved:
        open_flavors, forbidden_flavors = _parted(self._flavors, flavors, aggregate.uuid)
        open_images, forbidden_images = _parted(self._images, images, aggregate.uuid)
        return Reserved(
            aggregate,
            tuple(sorted(aggregate.reserving_traits)),
            open_flavors=open_flavors,
            forbidden_flavors=forbidden_flavors,
            open_images=open_images,
            forbidden_images=forbidden_images,
        )

    def _forbidden(
        self, traits: Iterable[str], aggregates: tuple[HostAggregate, ...]
    ) -> frozenset[str]:
        """Return the uuids of the aggregates that a request of these traits may not use."""
        return frozenset(forbidden_to(frozenset(traits), aggregates))


def _required_of(image: StoredImage) -> frozenset[str]:
    """Return what an image requires, also where other properties of it make no sense."""
    traits = {name: text for name, text in image.properties.items() if name.startswith("trait:")}
    return Image.from_document({"properties": traits}).required_traits


def _grouped(requiring: Iterable[tuple[str, frozenset[str]]]) -> ByTraits:
    found: dict[frozenset[str], list[str]] = defaultdict(list)
    for name, traits in requiring:
        found[traits].append(name)
    return {traits: tuple(sorted(names)) for traits, names in found.items()}


def _parted(
    named: ByTraits, forbidden: Mapping[frozenset[str], Collection[str]], aggregate: str
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the names to which an aggregate is open, and those to which it is forbidden."""
    parts: tuple[list[str], list[str]] = ([], [])
    for traits, names in named.items():
        parts[aggregate in forbidden[traits]].extend(names)
    return tuple(sorted(parts[False])), tuple(sorted(parts[True]))
