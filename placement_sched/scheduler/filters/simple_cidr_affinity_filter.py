"""SimpleCIDRAffinityFilter: hosts of one subnet."""

from functools import lru_cache
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network

from placement_sched.errors import Invalid
from placement_sched.model.spec import RequestSpec
from placement_sched.model.verdict import Refusal
from placement_sched.scheduler.filters import BaseHostFilter
from placement_sched.scheduler.host_state import HostState

_HINTS = "$.request_spec.scheduler_hints"


class SimpleCIDRAffinityFilter(BaseHostFilter):
    """Lets hosts pass whose address is in the same subnet as a given one.

    The hint ``build_near_host_ip`` is that address, ``cidr`` the length of the subnet's prefix:
    ``/24`` unless it says otherwise. A request without the address may go anywhere; a host that
    reported none of its own is near to nothing.
    """

    run_filter_once_per_request = True

    def check(self, spec_obj: RequestSpec) -> None:
        """Raise :class:`Invalid` for an address or prefix that is none."""
        _asked(spec_obj)

    def refusal(self, host_state: HostState, spec_obj: RequestSpec) -> Refusal | None:
        """Return the subnet asked for and the host's address, which is not in it."""
        subnet = _asked(spec_obj)
        if subnet is None:
            return None
        if not host_state.host_ip:
            return Refusal(f"an address in {subnet} asked, the host has told none", str(subnet))
        if ip_address(host_state.host_ip) in subnet:
            return None
        reason = f"an address in {subnet} asked, {host_state.host_ip} found"
        return Refusal(reason, str(subnet), host_state.host_ip)


def _asked(spec_obj: RequestSpec) -> IPv4Network | IPv6Network | None:
    """Return the subnet that the hints describe, if they do."""
    address = spec_obj.get_scheduler_hint("build_near_host_ip")
    if not address:
        return None
    prefix = spec_obj.get_scheduler_hint("cidr", "/24")
    for name, value in (("build_near_host_ip", address), ("cidr", prefix)):
        if not isinstance(value, str):
            raise Invalid(f"one value is expected (at {_HINTS}.{name})")
    return _subnet(address, prefix)


@lru_cache
def _subnet(address: str, prefix: str) -> IPv4Network | IPv6Network:
    try:
        ip_address(address)
    except ValueError:
        raise Invalid(f"{address!r} is no address (at {_HINTS}.build_near_host_ip)") from None
    try:
        return ip_network(f"{address}/{prefix.removeprefix('/')}", strict=False)
    except ValueError:
        raise Invalid(f"{prefix!r} is no prefix of {address} (at {_HINTS}.cidr)") from None
