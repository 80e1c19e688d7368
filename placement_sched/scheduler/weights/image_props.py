"""ImagePropertiesWeigher: prefer hosts that run images of the same kind."""

from collections.abc import Iterator, Mapping

from oslo_config import cfg

from placement_sched.config.sources import named_ratios
from placement_sched.model.image import Image
from placement_sched.scheduler.host_state import HostState
from placement_sched.scheduler.plugin import in_group
from placement_sched.scheduler.weights import BaseHostWeigher, Hosts, RequestSpec, Weights

_SETTING = "image_props_weight_setting"


class ImagePropertiesWeigher(BaseHostWeigher):
    """Prefers the host whose instances were booted from images with the request's properties.

    Each property that an instance's image shares with the request's, name and value, counts 1; or,
    where ``[filter_scheduler] image_props_weight_setting`` names properties, as in
    ``os_distro=2,hw_machine_type=-1``, what it says there, and 0 if it is not named. Elements that
    are not ``name=number`` are logged and ignored. Earlier instances of the same request count as
    well.

    The multiplier is ``[filter_scheduler] image_props_weight_multiplier``; with a negative one the
    host with the fewest such instances wins. It is 0 by default, and then no instance is looked
    at, whatever aggregates say: to look at all the instances of many hosts takes its time. Where
    it is not, aggregate metadata ``image_props_weight_multiplier`` override it for the hosts in the
    aggregate; of several the smallest counts.
    """

    by_host = True
    weight_option = cfg.FloatOpt("image_props_weight_multiplier", default=0.0)
    weight_help = (
        "Multiplier of ImagePropertiesWeigher; positive prefers hosts whose instances have images "
        "with the request's image properties, negative avoids them, 0 ignores them."
    )
    options = in_group(
        "filter_scheduler",
        cfg.ListOpt(_SETTING, default=[]),
        "The image properties that count for ImagePropertiesWeigher and by how much, as "
        "name=ratio, such as os_distro=2,hw_machine_type=-1. Empty: all count the same.",
    )

    def __init__(self) -> None:
        super().__init__()
        items = getattr(self.settings.filter_scheduler, _SETTING)
        self._ratios = dict(named_ratios(f"[filter_scheduler] {_SETTING}", items))

    def concerns(self, spec_obj: RequestSpec) -> bool:
        """Return whether the weigher is switched on, and the image has a property that counts."""
        return self._configured != 0 and bool(self._counting_properties(spec_obj.image))

    def column(self, hosts: Hosts, spec_obj: RequestSpec) -> Weights:
        """Return the sum, over the instances of each host, of what they share with the request."""
        if not self.concerns(spec_obj):
            return [0.0] * len(hosts)
        wanted = self._counting_properties(spec_obj.image)

        def shared(host: HostState) -> float:
            each = (_properties(one.image_meta) for one in host.instances.values())
            return sum((wanted.get(one, 0.0) for some in each for one in some), 0.0)

        return list(map(shared, hosts))

    def _counting_properties(self, image: Image) -> Mapping[tuple[str, str], float]:
        """Return how much each property of an image counts, without those that do not."""
        otherwise = 0.0 if self._ratios else 1.0
        counting = {one: self._ratios.get(one[0], otherwise) for one in _properties(image)}
        return {one: ratio for one, ratio in counting.items() if ratio}


def _properties(image: Image) -> Iterator[tuple[str, str]]:
    """Yield name and value, as a text, of each property: lists have no hash."""
    return ((name, str(value)) for name, value in image.properties.to_dict().items())
