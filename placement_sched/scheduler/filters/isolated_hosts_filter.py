"""IsolatedHostsFilter: certain images on certain hosts."""

from collections.abc import Iterable

from oslo_config import cfg

from placement_sched.scheduler.filters import (
    BaseHostFilter,
    HostState,
    Question,
    Refusal,
    Remedy,
    RequestSpec,
)
from placement_sched.scheduler.plugin import in_group


class IsolatedHostsFilter(BaseHostFilter):
    """Keeps isolated images on isolated hosts, and other images off them.

    ``[filter_scheduler] isolated_images`` lists ids of images, ``isolated_hosts`` names of hosts.
    With ``restrict_isolated_hosts_to_isolated_images = false`` isolated hosts take other images
    too. Each new host has to be added to the option, which forbidden aggregates do not need.
    """

    run_filter_once_per_request = True
    RUN_ON_REBUILD = True

    options = in_group(
        "filter_scheduler",
        cfg.ListOpt("isolated_images", default=[], deprecated_group="DEFAULT"),
        "Ids of the images that IsolatedHostsFilter keeps on isolated_hosts.",
        cfg.ListOpt("isolated_hosts", default=[], deprecated_group="DEFAULT"),
        "Names of the hosts that IsolatedHostsFilter keeps for isolated_images.",
        cfg.BoolOpt(
            "restrict_isolated_hosts_to_isolated_images", default=True, deprecated_group="DEFAULT"
        ),
        "Whether IsolatedHostsFilter keeps other images off isolated_hosts.",
    )

    def for_request(self, spec_obj: RequestSpec) -> Question:
        """Return what rejects where one of host and image is isolated, and the other is not."""
        options, image = self.settings.filter_scheduler, spec_obj.image.id
        image_is, isolated = image in options.isolated_images, frozenset(options.isolated_hosts)
        restricts = options.restrict_isolated_hosts_to_isolated_images

        def refusal(host_state: HostState) -> Refusal | None:
            host_is = host_state.host in isolated
            if image_is and not host_is:
                return Refusal(f"image {image} is isolated, the host is not", image)
            if host_is and not image_is and restricts:
                requested = f"image {image}" if image else "a request without image"
                return Refusal(f"the host is isolated, {requested} is not", image)
            return None

        return refusal

    def changes(self, host_state: HostState, spec_obj: RequestSpec) -> Iterable[Remedy]:
        """Return which option would have to name what else."""
        image, host = spec_obj.image.id, host_state.host
        if host in self.settings.filter_scheduler.isolated_hosts:
            words = f"use an isolated image, or take {host} out of isolated_hosts"
        else:
            words = f"add {host} to isolated_hosts, or use another image than {image}"
        yield Remedy("set_option", words, {"option": "filter_scheduler.isolated_hosts"})
