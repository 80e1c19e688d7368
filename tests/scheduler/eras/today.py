# Written for a cloud of today: noisy neighbours are kept apart, and metered hosts are compared.
import collections
import typing as ty

from oslo_config import cfg
from oslo_log import log as logging

from placement_sched import config
from placement_sched.scheduler import filters
from placement_sched.scheduler import utils
from placement_sched.scheduler import weights

CONF = config.CONF
LOG = logging.getLogger(__name__)

neighbour_group = cfg.OptGroup('neighbours', title='Noisy neighbours')
neighbour_opts = [
    cfg.IntOpt('max_noisy', default=1, min=0, help='How many noisy ones a host bears.'),
    cfg.BoolOpt('need_metrics', default=False, help='Whether hosts must be metered.'),
]
CONF.register_group(neighbour_group)
CONF.register_opts(neighbour_opts, group=neighbour_group)


class NoisyNeighbourFilter(filters.BaseHostFilter):
    """Compares hosts with each other: the quietest ones pass."""

    RUN_ON_REBUILD = False

    def __init__(self):
        super().__init__()
        LOG.info('At most %d noisy neighbours', CONF.neighbours.max_noisy)

    def run_filter_for_index(self, index: int) -> bool:
        return True

    def filter_all(self, filter_obj_list, spec_obj):
        noisy: ty.Dict[str, int] = collections.Counter()
        hosts = list(filter_obj_list)
        for host_state in hosts:
            for uuid, instance in host_state.instances.items():
                if not instance.flavor:
                    continue
                assert instance.uuid == uuid
                if instance.flavor.extra_specs.get('neighbours:noisy') == 'true':
                    noisy[host_state.host] += 1
        for host_state in hosts:
            if noisy[host_state.host] > CONF.neighbours.max_noisy:
                continue
            if self._filter_one(host_state, spec_obj):
                yield host_state

    def host_passes(self, host_state, spec_obj) -> bool:
        if CONF.neighbours.need_metrics and not host_state.metrics:
            return False
        if spec_obj.numa_topology and not host_state.numa_topology:
            return False
        if spec_obj.pci_requests and spec_obj.pci_requests.requests and not host_state.pci_stats:
            return False
        if spec_obj.is_bfv or spec_obj.requested_destination is None:
            return True
        return host_state.cell_uuid == spec_obj.requested_destination.cell


class CPUPercentWeigher(weights.BaseHostWeigher):
    """Prefers idle hosts, by what they report."""

    def weight_multiplier(self, host_state) -> float:
        return utils.get_weight_multiplier(
            host_state, 'cpu_percent_weight_multiplier', -1.0)

    def weigh_objects(self, weighed_obj_list, weight_properties):
        found = []
        for weighed in weighed_obj_list:
            told = {metric.name: metric.value for metric in weighed.obj.metrics or []}
            found.append(told.get('cpu.percent', 100))
        self.minval = 0
        self.maxval = 100
        return found
