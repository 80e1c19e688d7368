# SPDX-License-Identifier: Apache-2.0
"""SimpleCIDRAffinityFilter: filter for hosts in the subnet of an address."""

from functools import lru_cache
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network

from placement_sched.errors import Invalid
from placement_sched.model.request_spec import RequestSpec
from placement_sched.scheduler.filters import (
    BaseHostFilter,
    HostState,
    Rejection,
    SuggestedChanges,
    drop_hint,
)

_HINTS = "$.request_spec.scheduler_hints"


class SimpleCIDRAffinityFilter(BaseHostFilter):
    """Filter for hosts in the same subnet as a requested address.

    The hint ``build_near_host_ip`` is the address, and ``cidr`` the length of the subnet's prefix
    (by default ``/24``). Without the address every host passes. With the address, hosts that report
    no address are rejected.
    """

    run_filter_once_per_request = True

    def check(self, spec_obj: RequestSpec) -> None:
        _find_requested_subnet(spec_obj)

    def rejection(self, host_state: HostState, spec_obj: RequestSpec) -> Rejection | None:
        subnet, address = _find_requested_subnet(spec_obj), host_state.host_ip
        if subnet is None or (address and ip_address(address) in subnet):
            return None
        return Rejection(kind="subnet", requested=str(subnet), actual=address or None)

    def suggested_changes(self, host_state: HostState, spec_obj: RequestSpec) -> SuggestedChanges:
        yield drop_hint(spec_obj, "build_near_host_ip")


def _find_requested_subnet(spec_obj: RequestSpec) -> IPv4Network | IPv6Network | None:
    address = spec_obj.get_scheduler_hint("build_near_host_ip")
    prefix = spec_obj.get_scheduler_hint("cidr", "/24")
    for name, value in (("build_near_host_ip", address), ("cidr", prefix)):
        if address and not isinstance(value, str):
            raise Invalid("expected a single value", json_path=f"{_HINTS}.{name}")
    return _parse_subnet(address, prefix) if address else None


@lru_cache
def _parse_subnet(address: str, prefix: str) -> IPv4Network | IPv6Network:
    try:
        ip_address(address)
    except ValueError:
        raise Invalid(
            f"{address!r} is not an address", json_path=f"{_HINTS}.build_near_host_ip"
        ) from None
    try:
        return ip_network(f"{address}/{prefix.removeprefix('/')}", strict=False)
    except ValueError:
        raise Invalid(
            f"{prefix!r} is not a prefix of {address}", json_path=f"{_HINTS}.cidr"
        ) from None
