"""TrustedFilter: hosts whose integrity an attestation service vouches for."""

from collections.abc import Iterable, Sequence

from placement_sched.clients.attestation import Attestation, Attested, AttestedHosts
from placement_sched.model.request_spec import RequestSpec
from placement_sched.scheduler.filters import BaseHostFilter, HostState, Refusal, Remedy, Verdict
from placement_sched.scheduler.filters.changed_requests import without_extra_specs

_KEY = "trust:trusted_host"


class TrustedFilter(BaseHostFilter):
    """Lets hosts pass whose trust level is what extra spec ``trust:trusted_host`` requires.

    Its values are ``trusted``, ``untrusted`` and ``unknown``; without it every host passes. The
    service at ``[trusted_computing] attestation_server`` is asked of all hosts of a request at once
    (OpenAttestation's ``POST PollHosts``), by the names of their nodes. What it says of a host
    holds for ``attestation_auth_timeout`` seconds from the time that it gives with it. A host that
    it does not know, or gives no valid time of, is unknown, and so is every host when it does not
    answer: then it is asked again 5 seconds later. It may take 10 seconds to answer, for which the
    request waits. As it was in nova until Pike, but for these limits; enable it last. All options
    of ``[trusted_computing]`` are listed in :doc:`options`.
    """

    run_filter_once_per_request = True

    def __init__(self) -> None:
        super().__init__()
        given = self.settings.trusted_computing
        self._attested: AttestedHosts | None = None
        if host := given.attestation_server:
            place = f"[{host}]" if ":" in host else host
            service = Attestation(
                f"https://{place}:{given.attestation_port}/{given.attestation_api_url.strip('/')}",
                verify=not given.attestation_insecure_ssl
                and (given.attestation_server_ca_file or True),
                blob=given.attestation_auth_blob,
            )
            lifetime = given.attestation_auth_timeout
            self._attested = AttestedHosts(service.poll, lifetime=lifetime, clock=self._clock)

    def verdicts(
        self, hosts: Sequence[HostState], spec_obj: RequestSpec
    ) -> Sequence[Verdict] | None:
        """Return the verdict on each host, once the service was asked about all of them."""
        if self._attested is not None and spec_obj.flavor.extra_specs.get(_KEY):
            self._attested.levels([host.nodename for host in hosts])
        return super().verdicts(hosts, spec_obj)

    def refusal(self, host_state: HostState, spec_obj: RequestSpec) -> Refusal | None:
        """Return how far the host is trusted, where that is not what is asked."""
        wanted = spec_obj.flavor.extra_specs.get(_KEY)
        if not wanted:
            return None
        if self._attested is None:
            trust, why = "unknown", ": [trusted_computing] attestation_server is not set"
        else:
            known = self._attested.levels([host_state.nodename])[host_state.nodename]
            trust, why = known.level.trust, _reason(known)
        if trust == wanted:
            return None
        return Refusal(f"{wanted} requested, the host is {trust}{why}", wanted, trust)

    def changes(self, host_state: HostState, spec_obj: RequestSpec) -> Iterable[Remedy]:
        """Return the extra spec that asks for more trust."""
        yield without_extra_specs(spec_obj, [_KEY], "let the host be attested so")


def _reason(known: Attested) -> str:
    """Return why the host has this trust level, or since when."""
    if known.failure is not None:
        return f": {known.failure}"
    if known.level.since is None:
        return ": the attestation service does not know it"
    return f" since {known.level.since:%Y-%m-%dT%H:%M:%SZ}"
