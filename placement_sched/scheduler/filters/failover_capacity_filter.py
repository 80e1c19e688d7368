# SPDX-License-Identifier: Apache-2.0
"""FailoverCapacityFilter: filter that keeps failover capacity free."""

from oslo_config import cfg
from oslo_log import log

from placement_sched.config.settings import MAX_INT
from placement_sched.limits import MAX_FAILOVER_FLAVORS
from placement_sched.model.figures import FailoverResult, get_failover_result
from placement_sched.scheduler.filters import BaseHostFilter, HostCheck, Rejection, RequestSpec
from placement_sched.scheduler.plugin import build_group_options

LOG = log.getLogger(__name__)


class FailoverCapacityFilter(BaseHostFilter):
    """Filter that rejects new instances that would use failover capacity.

    ``[scheduler] failover_interval`` starts a background computation. Its result is whether every
    instance of a failed host finds another host, and how many further instances of each flavor may
    be placed before that changes. A request for more instances than the proved upper bound of this
    number is rejected on all hosts. The reason has the numbers, and the age of the result.

    All hosts pass if there is no result, if it is older than ``failover_capacity_max_age``, if it
    has no number for the flavor, or if an instance boots from a volume and uses less disk than its
    flavor. They also pass if the request ignores hosts. nova sends such requests to move
    an instance, for example to evacuate a failed host. The log has once why a result cannot be
    used, and once a flavor without a number. Not enabled by default. nova has no such filter.
    """

    run_filter_once_per_request = True
    reads_failover_result = True

    options = build_group_options(
        "filter_scheduler",
        cfg.IntOpt("failover_capacity_max_age", default=900, min=1, max=MAX_INT, mutable=True),
        "Maximum age in seconds of the failover result that FailoverCapacityFilter uses. With an "
        "older result all hosts pass.",
    )

    _is_logged = False
    _is_flavor_logged = False

    def prepare(self, spec_obj: RequestSpec) -> HostCheck | None:
        uses_less_disk = spec_obj.is_bfv and spec_obj.flavor.root_gb
        if spec_obj.ignore_hosts or uses_less_disk:
            return None
        if (result := self._find_usable_result()) is None:
            return None
        allowance = result.allowances.get(spec_obj.flavor.name or "")
        if allowance is None or allowance.at_most is None:
            if not self._is_flavor_logged:
                self._is_flavor_logged = True
                LOG.warning(
                    "FailoverCapacityFilter passes all hosts for flavor %s: the result has no "
                    "number for the flavor. The flavor is not stored, is not among the first %d "
                    "stored flavors, or has no at_most in GET /scheduler/v1/failover_capacity",
                    spec_obj.flavor.name,
                    MAX_FAILOVER_FLAVORS,
                )
            return None
        if not allowance.domain or spec_obj.num_instances <= allowance.at_most:
            return None
        values = {
            "flavor": allowance.flavor,
            "too_many": allowance.at_most + 1,
            "stuck": allowance.stuck,
            "domain_type": result.noun,
            "domain": allowance.domain,
            "age_s": round(result.compute_age(self.now())),
        }
        rejection = Rejection(
            kind="failover_capacity",
            requested=spec_obj.num_instances,
            actual=allowance.at_most,
            values=values,
        )
        return lambda _host_state: rejection

    def _find_usable_result(self) -> FailoverResult | None:
        """Return the result, or log once why it cannot be used and return None."""
        result, reason = get_failover_result(), ""
        maximum = self.settings.filter_scheduler.failover_capacity_max_age
        if result is None:
            reason = "no result exists, set [scheduler] failover_interval"
        elif (age := result.compute_age(self.now())) > maximum:
            reason = f"the result is {age:.0f} s old, the maximum is {maximum} s"
        if not reason:
            self._is_logged = False
            return result
        if not self._is_logged:
            self._is_logged = True
            LOG.warning("FailoverCapacityFilter passes all hosts: %s", reason)
        return None
