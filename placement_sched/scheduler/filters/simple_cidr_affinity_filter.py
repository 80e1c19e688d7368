"""SimpleCIDRAffinityFilter: hosts whose address is in the same subnet as a given one."""

from collections.abc import Iterable
from functools import lru_cache
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network

from placement_sched.errors import Invalid
from placement_sched.model.request_spec import RequestSpec
from placement_sched.scheduler.filters import BaseHostFilter, HostState, Refusal, Remedy
from placement_sched.scheduler.filters.changed_requests import without_hint

_HINTS = "$.request_spec.scheduler_hints"


class SimpleCIDRAffinityFilter(BaseHostFilter):
    """Lets hosts pass whose address is in the same subnet as a given one.

    The hint ``build_near_host_ip`` is that address, ``cidr`` the length of the subnet's prefix:
    ``/24`` unless it says otherwise. A request without the address may go anywhere; a host that
    reported none of its own is near to nothing.
    """

    run_filter_once_per_request = True

    def check(self, spec_obj: RequestSpec) -> None:
        """Raise :class:`Invalid` for an invalid address or prefix."""
        _asked(spec_obj)

    def refusal(self, host_state: HostState, spec_obj: RequestSpec) -> Refusal | None:
        """Return the subnet asked for and the host's address, which is not in it."""
        subnet, address = _asked(spec_obj), host_state.host_ip
        if subnet is None or (address and ip_address(address) in subnet):
            return None
        found = f"{address} found" if address else "the host reports none"
        return Refusal(f"an address in {subnet} requested, {found}", str(subnet), address or None)

    def changes(self, host_state: HostState, spec_obj: RequestSpec) -> Iterable[Remedy]:
        """Return the hint that keeps the request away."""
        yield without_hint(spec_obj, "build_near_host_ip")


def _asked(spec_obj: RequestSpec) -> IPv4Network | IPv6Network | None:
    """Return the subnet that the hints describe, if they do."""
    address = spec_obj.get_scheduler_hint("build_near_host_ip")
    prefix = spec_obj.get_scheduler_hint("cidr", "/24")
    for name, value in (("build_near_host_ip", address), ("cidr", prefix)):
        if address and not isinstance(value, str):
            raise Invalid("one value is expected", at=f"{_HINTS}.{name}")
    return _subnet(address, prefix) if address else None


@lru_cache
def _subnet(address: str, prefix: str) -> IPv4Network | IPv6Network:
    try:
        ip_address(address)
    except ValueError:
        raise Invalid(f"{address!r} is not an address", at=f"{_HINTS}.build_near_host_ip") from None
    try:
        return ip_network(f"{address}/{prefix.removeprefix('/')}", strict=False)
    except ValueError:
        raise Invalid(f"{prefix!r} is not a prefix of {address}", at=f"{_HINTS}.cidr") from None
