# SPDX-License-Identifier: Apache-2.0
"""Third-party plugins for nova, with changed import lines."""

from oslo_config import cfg
from oslo_log import log as logging

from placement_sched.config.conf import CONF
from placement_sched.scheduler import filters, weights
from placement_sched.scheduler.filters import utils
from placement_sched.scheduler.request_filters import BaseRequestFilter, require_traits

LOG = logging.getLogger(__name__)

CONF.register_opts([cfg.IntOpt("most_instances", default=3, help="How many.")], group="acme")


class AcmeFilter(filters.BaseHostFilter):
    """Reads hints, image, flavor and aggregates as nova's filters do."""

    run_filter_once_per_request = True

    def __init__(self):
        super().__init__()
        self.most = CONF.acme.most_instances

    def host_passes(self, host_state, spec_obj):
        scheduler_hint = spec_obj.get_scheduler_hint("rack")
        racks = utils.aggregate_metadata_get_by_host(host_state, key="rack")["rack"]
        image_props = spec_obj.image.properties if spec_obj.image else {}
        if image_props.get("hw_architecture") == "aarch64":
            LOG.debug("%s is no ARM", host_state)
            return False
        if host_state.service["disabled"] or host_state.num_instances >= self.most:
            return False
        if spec_obj.flavor.extra_specs.get("acme:any_rack"):
            return True
        return scheduler_hint is None or scheduler_hint in racks


class AcmeWeigher(weights.BaseHostWeigher):
    """Prefers hosts with few instances."""

    minval = 0

    def weight_multiplier(self, host_state):
        return utils.validate_num_values(
            utils.aggregate_values_from_key(host_state, "acme_weight_multiplier"), -2.0, float
        )

    def _weigh_object(self, host_state, request_spec):
        return host_state.num_instances


class AcmeRequestFilter(BaseRequestFilter):
    """A request filter that changes nothing."""

    name = "acme"

    def enabled(self, settings):
        return True

    def apply(self, spec, world):
        return None


class AcmeTraitFilter(BaseRequestFilter):
    """Requires the trait of its own option on the root provider."""

    name = "acme_trait"
    aliases = ("acme_label",)
    options = (("acme_requests", cfg.StrOpt("trait", default="CUSTOM_ACME", help="Which.")),)

    def apply(self, spec, world):
        return require_traits(spec, self.settings.acme_requests.trait)


class OptionDeclaringFilter(filters.BaseHostFilter):
    """Declares an option."""

    options = (("acme_ours", cfg.IntOpt("limit", default=5, help="How many.")),)

    def host_passes(self, host_state, spec_obj):
        return host_state.num_instances < self.settings.acme_ours.limit


def list_acme_filters():
    """Return several classes for a single path, like nova's all_filters."""
    return [AcmeFilter, OptionDeclaringFilter]


#: The kinds of plugins that were imported by path.
IMPORTED_PLUGIN_KINDS = []


def record_and_list_filters():
    """Return a filter, and record the import."""
    IMPORTED_PLUGIN_KINDS.append("filter")
    return [AcmeFilter]


def record_and_list_weighers():
    """Return a weigher, and record the import."""
    IMPORTED_PLUGIN_KINDS.append("weigher")
    return [AcmeWeigher]


def record_and_list_request_filters():
    """Return a request filter, and record the import."""
    IMPORTED_PLUGIN_KINDS.append("request filter")
    return [AcmeTraitFilter]


def list_classes_that_are_no_filters():
    """Return an object that is not a filter."""
    return [AcmeWeigher]


NUMBER_INSTEAD_OF_PLUGIN = 5
