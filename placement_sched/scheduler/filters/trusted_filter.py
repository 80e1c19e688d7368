# SPDX-License-Identifier: Apache-2.0
"""TrustedFilter: filter for hosts with an attested trust level."""

from collections.abc import Sequence

from placement_sched.clients.attestation import Attestation, AttestedHosts
from placement_sched.model.request_spec import RequestSpec
from placement_sched.scheduler.filters import (
    BaseHostFilter,
    FilterResult,
    HostState,
    Rejection,
    SuggestedChanges,
    suggest_without_extra_specs,
)

_KEY = "trust:trusted_host"


class TrustedFilter(BaseHostFilter):
    """Filter for hosts with the requested trust level.

    The extra spec ``trust:trusted_host`` is ``trusted``, ``untrusted`` or ``unknown``. Without it
    every host passes. A single request to the service at ``[trusted_computing] attestation_server``
    (OpenAttestation's ``POST PollHosts``) attests all hosts, by the names of their nodes. A level
    is valid for ``attestation_auth_timeout`` seconds from its own timestamp. A host that the
    service does not list, or lists without a valid time, is unknown. If the service does not answer
    within 10 seconds, every host is unknown, and the next attempt follows 5 seconds later. Apart
    from these limits the filter works as in nova until Pike. Enable it last. :doc:`options` lists
    all options of ``[trusted_computing]``.
    """

    run_filter_once_per_request = True

    def __init__(self) -> None:
        super().__init__()
        conf = self.settings.trusted_computing
        self._attested: AttestedHosts | None = None
        if host := conf.attestation_server:
            address = f"[{host}]" if ":" in host else host
            service = Attestation(
                f"https://{address}:{conf.attestation_port}/{conf.attestation_api_url.strip('/')}",
                cacert=conf.attestation_server_ca_file,
                insecure=conf.attestation_insecure_ssl,
                blob=conf.attestation_auth_blob,
            )
            lifetime = conf.attestation_auth_timeout
            self._attested = AttestedHosts(service.poll, lifetime=lifetime, clock=self._clock)

    def evaluate_hosts(
        self, hosts: Sequence[HostState], spec_obj: RequestSpec
    ) -> Sequence[FilterResult] | None:
        if self._attested is not None and spec_obj.flavor.extra_specs.get(_KEY):
            self._attested.get_levels([host.nodename for host in hosts])
        return super().evaluate_hosts(hosts, spec_obj)

    def rejection(self, host_state: HostState, spec_obj: RequestSpec) -> Rejection | None:
        requested_trust = spec_obj.flavor.extra_specs.get(_KEY)
        if not requested_trust:
            return None
        if self._attested is None:
            trust = "unknown"
            cause = {"option": "[trusted_computing] attestation_server"}
        else:
            attested = self._attested.get_levels([host_state.nodename])[host_state.nodename]
            trust, since = attested.level.trust, attested.level.since
            if since is not None and attested.failure is None:
                cause = {"since": f"{since:%Y-%m-%dT%H:%M:%SZ}"}
            else:
                cause = {} if attested.failure is None else {"failure": attested.failure}
        if trust == requested_trust:
            return None
        return Rejection(kind="trust_level", requested=requested_trust, actual=trust, values=cause)

    def suggested_changes(self, host_state: HostState, spec_obj: RequestSpec) -> SuggestedChanges:
        yield suggest_without_extra_specs(spec_obj, [_KEY], "trust_level")
