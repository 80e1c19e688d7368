# SPDX-License-Identifier: Apache-2.0
"""IsolatedHostsFilter: filter that confines images to certain hosts."""

from oslo_config import cfg

from placement_sched.explain.advice import build_change
from placement_sched.scheduler.filters import (
    BaseHostFilter,
    HostCheck,
    HostState,
    Rejection,
    RequestSpec,
    SuggestedChanges,
)
from placement_sched.scheduler.plugin import build_group_options


class IsolatedHostsFilter(BaseHostFilter):
    """Filter that reserves isolated hosts for isolated images.

    Isolated images also fit only on isolated hosts. ``[filter_scheduler] isolated_images`` lists
    image ids, ``isolated_hosts`` host names. With ``restrict_isolated_hosts_to_isolated_images =
    false`` isolated hosts accept other images too. Each new host must be added to
    ``isolated_hosts``. Aggregates that are reserved by traits avoid this (:doc:`aggregates`).
    """

    run_filter_once_per_request = True
    RUN_ON_REBUILD = True

    options = build_group_options(
        "filter_scheduler",
        cfg.ListOpt("isolated_images", default=[], deprecated_group="DEFAULT"),
        "Ids of the images that IsolatedHostsFilter confines to isolated_hosts.",
        cfg.ListOpt("isolated_hosts", default=[], deprecated_group="DEFAULT"),
        "Names of the hosts that IsolatedHostsFilter reserves for isolated_images.",
        cfg.BoolOpt(
            "restrict_isolated_hosts_to_isolated_images", default=True, deprecated_group="DEFAULT"
        ),
        "Whether IsolatedHostsFilter rejects isolated_hosts for other images.",
    )

    def prepare(self, spec_obj: RequestSpec) -> HostCheck:
        options, image = self.settings.filter_scheduler, spec_obj.image.id
        is_isolated_image, isolated_hosts = (
            image in options.isolated_images,
            frozenset(options.isolated_hosts),
        )
        restricts = options.restrict_isolated_hosts_to_isolated_images

        def check_host(host_state: HostState) -> Rejection | None:
            is_isolated_host = host_state.host in isolated_hosts
            if is_isolated_image and not is_isolated_host:
                return Rejection(kind="isolated", values={"isolated_image": image})
            if is_isolated_host and not is_isolated_image and restricts:
                return Rejection(kind="isolated", values={"image": image} if image else {})
            return None

        return check_host

    def suggested_changes(self, host_state: HostState, spec_obj: RequestSpec) -> SuggestedChanges:
        image, host = spec_obj.image.id, host_state.host
        if host in self.settings.filter_scheduler.isolated_hosts:
            kind = "isolated_host"
        else:
            kind = "isolated_image"
        values = {"option": "filter_scheduler.isolated_hosts"}
        yield build_change("set_option", values, kind=kind, image=image, name=host)
