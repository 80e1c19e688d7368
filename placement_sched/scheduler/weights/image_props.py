# SPDX-License-Identifier: Apache-2.0
"""ImagePropertiesWeigher: weigher by shared image properties."""

from collections.abc import Iterator, Mapping

from oslo_config import cfg

from placement_sched.config.sources import parse_ratios
from placement_sched.model.image import Image
from placement_sched.scheduler.host_state import HostState
from placement_sched.scheduler.plugin import build_group_options
from placement_sched.scheduler.weights import BaseHostWeigher, Hosts, RequestSpec, Weights

_SETTING = "image_props_weight_setting"


class ImagePropertiesWeigher(BaseHostWeigher):
    """Weigher that prefers hosts whose instances share image properties.

    Each property of an instance's image that the request's image has with the same value counts 1.
    If ``[filter_scheduler] image_props_weight_setting`` names properties, as in
    ``os_distro=2,hw_machine_type=-1``, they count as listed, and all others 0. Elements that are
    not ``name=number`` are logged and ignored. Earlier instances of the same request count too.

    The multiplier is ``[filter_scheduler] image_props_weight_multiplier``. A negative value prefers
    hosts with the fewest such instances. With the default, 0, the weigher does not run, even if
    aggregates set it, because reading all instances of many hosts is slow.
    """

    by_host = True
    weight_option = cfg.FloatOpt("image_props_weight_multiplier", default=0.0)
    weight_help = (
        "Multiplier of ImagePropertiesWeigher. A positive value prefers hosts whose instances have "
        "images with the request's image properties, a negative value avoids them, 0 ignores them."
    )
    options = build_group_options(
        "filter_scheduler",
        cfg.ListOpt(_SETTING, default=[]),
        "The image properties that ImagePropertiesWeigher weighs, with their ratios, as "
        "name=ratio, such as os_distro=2,hw_machine_type=-1. Empty: all count the same.",
    )

    def __init__(self) -> None:
        super().__init__()
        items = getattr(self.settings.filter_scheduler, _SETTING)
        self._ratios = dict(parse_ratios(f"[filter_scheduler] {_SETTING}", items))

    def concerns(self, spec_obj: RequestSpec) -> bool:
        return self._configured != 0 and bool(self._select_weighed_properties(spec_obj.image))

    def weigh_hosts(self, hosts: Hosts, spec_obj: RequestSpec) -> Weights:
        if not self.concerns(spec_obj):
            return [0.0] * len(hosts)
        ratios = self._select_weighed_properties(spec_obj.image)

        def sum_shared_ratios(host: HostState) -> float:
            props_by_instance = (
                _list_properties(instance.image_meta) for instance in host.instances.values()
            )
            return sum(
                (ratios.get(prop, 0.0) for props in props_by_instance for prop in props), 0.0
            )

        return list(map(sum_shared_ratios, hosts))

    def _select_weighed_properties(self, image: Image) -> Mapping[tuple[str, str], float]:
        default = 0.0 if self._ratios else 1.0
        ratios = {prop: self._ratios.get(prop[0], default) for prop in _list_properties(image)}
        return {prop: ratio for prop, ratio in ratios.items() if ratio}


def _list_properties(image: Image) -> Iterator[tuple[str, str]]:
    """Yield names and values, as texts because lists have no hash."""
    return ((name, str(value)) for name, value in image.properties.to_dict().items())
