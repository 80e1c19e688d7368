# Written for a cloud of Icehouse: license seats per host, and the hosts of one's own project first.
from oslo_config import cfg
from oslo_log import log as logging

from placement_sched.scheduler import filters
from placement_sched.scheduler import weights

LOG = logging.getLogger(__name__)

license_opts = [
    cfg.IntOpt('seats_per_host',
               default=2,
               help='How many instances with a license a host may have'),
    cfg.ListOpt('licensed_hosts',
                default=['cn1', 'cn2', 'cn3'],
                help='Hosts that have a license'),
]
own_opts = [
    cfg.FloatOpt('own_project_weight_multiplier',
                 default=1.0,
                 help='Multiplier of the hosts that one is on already'),
]

CONF = cfg.CONF
CONF.register_opts(license_opts, group='licenses')
CONF.register_opts(own_opts)


class LicenseFilter(filters.BaseHostFilter):
    """Licensed software goes to hosts with a free seat"""

    # the seats do not change within a request
    run_filter_once_per_request = True

    def host_passes(self, host_state, filter_properties):
        """Return True if there is a seat, or none is needed."""
        instance_type = filter_properties.get('instance_type')
        scheduler_hints = filter_properties.get('scheduler_hints') or {}
        request_spec = filter_properties.get('request_spec', {})
        props = request_spec.get('instance_properties', {})
        image_props = request_spec['image'].get('properties', {})

        if 'extra_specs' not in instance_type:
            return True
        needs = instance_type['extra_specs'].get('license', None)
        if not needs and image_props.get('os_type') != 'windows':
            return True
        if host_state.host in filter_properties.get('ignore_hosts', []):
            return False
        if scheduler_hints.get('no_license') == props.get('project_id'):
            LOG.debug("%(project)s brings its own license to %(host)s",
                      {'project': props['project_id'], 'host': host_state})
            return True
        if host_state.host not in CONF.licenses.licensed_hosts:
            return False
        free = CONF.licenses.seats_per_host - host_state.num_instances
        host_state.limits['seats'] = CONF.licenses.seats_per_host
        return (free > 0 and
                host_state.free_ram_mb >= instance_type['memory_mb'] and
                host_state.total_usable_disk_gb >= instance_type['root_gb'])


class OwnProjectWeigher(weights.BaseHostWeigher):

    def _weight_multiplier(self):
        """Override the weight multiplier."""
        return CONF.own_project_weight_multiplier

    def _weigh_object(self, host_state, weight_properties):
        """Higher weights win."""
        project = weight_properties['project_id']
        return len([i for i in host_state.instances.values() if i['project_id'] == project])


class FreeDiskWeigher(weights.BaseHostWeigher):

    minval = 0

    def weight_multiplier(self):
        return 2.0

    def _weigh_object(self, host_state, weight_properties):
        return host_state.free_disk_mb
