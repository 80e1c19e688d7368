# Written for a cloud of Stein: tiers of hosts by aggregate, and a weigher to go with them.
from oslo_log import log as logging

from placement_sched import config
from placement_sched.scheduler import filters
from placement_sched.scheduler.filters import extra_specs_ops
from placement_sched.scheduler.filters import utils
from placement_sched.scheduler import utils as scheduler_utils
from placement_sched.scheduler import weights

LOG = logging.getLogger(__name__)

CONF = config.CONF

_SCOPE = 'tier'


class TierFilter(filters.BaseHostFilter):
    """Instances of a tier stay in the aggregates of that tier."""

    # Aggregate data and instance type does not change within a request
    run_filter_once_per_request = True

    RUN_ON_REBUILD = False

    def _filter_one(self, obj, spec_obj):
        """Rescheduled requests are not held to the tier."""
        if spec_obj.retry and spec_obj.retry.num_attempts > 2:
            return True
        return super(TierFilter, self)._filter_one(obj, spec_obj)

    def host_passes(self, host_state, spec_obj):
        hint = spec_obj.get_scheduler_hint('tier')
        metadata = utils.aggregate_metadata_get_by_host(host_state, key=_SCOPE)
        tiers = metadata.get(_SCOPE, set())
        if hint is not None and hint not in tiers:
            LOG.debug("%(host_state)s is of tiers %(tiers)s, not %(hint)s",
                      {'host_state': host_state, 'tiers': tiers, 'hint': hint})
            return False
        for key, req in spec_obj.flavor.extra_specs.items():
            scope = key.split(':', 1)
            if len(scope) != 2 or scope[0] != _SCOPE:
                continue
            vals = utils.aggregate_values_from_key(host_state, scope[1])
            if not any(extra_specs_ops.match(val, req) for val in vals):
                return False
        if 'instance_group' in spec_obj and spec_obj.instance_group:
            policies = spec_obj.instance_group.policies
            if 'anti-affinity' in policies and \
                    host_state.host in spec_obj.instance_group.hosts:
                return False
        service = host_state.service
        if service['disabled']:
            return False
        used = host_state.vcpus_used + spec_obj.vcpus
        ratio = utils.validate_num_values(
            utils.aggregate_values_from_key(host_state, 'cpu_allocation_ratio'),
            host_state.cpu_allocation_ratio, cast_to=float)
        return used <= host_state.vcpus_total * ratio


class TierRAMWeigher(weights.BaseHostWeigher):
    minval = 0
    maxval = 65536

    def weight_multiplier(self, host_state):
        """Override the weight multiplier."""
        return scheduler_utils.get_weight_multiplier(
            host_state, 'ram_weight_multiplier',
            CONF.filter_scheduler.ram_weight_multiplier)

    def _weigh_object(self, host_state, weight_properties):
        """Higher weights win.  We want spreading to be the default."""
        return host_state.free_ram_mb
