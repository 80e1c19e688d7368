"""tpm_secret_security_filter: ask for hosts that keep the secret of a TPM as it is to be kept."""

from placement_sched.model.spec import RequestSpec
from placement_sched.scheduler.hardware.tpm import secret_security
from placement_sched.scheduler.request_filters import (
    BaseRequestFilter,
    Outcome,
    World,
    requiring,
)


class TPMSecretSecurityFilter(BaseRequestFilter):
    """Requires hosts that keep the secret of an emulated TPM the way the flavor asks.

    For instances with a TPM (``hw:tpm_version``) only. The extra spec ``hw:tpm_secret_security``
    is ``user`` (so where it is not given), ``host`` or ``deployment``; the root provider must have
    the trait COMPUTE_SECURITY_TPM_SECRET_SECURITY_<value>. Always on.
    """

    name = "tpm_secret_security_filter"

    def apply(self, spec: RequestSpec, world: World) -> Outcome | None:
        """Return the request for such hosts; None where there is no TPM."""
        security = secret_security(spec.flavor, spec.image)
        if security is None:
            return None
        return requiring(spec, f"COMPUTE_SECURITY_TPM_SECRET_SECURITY_{security.upper()}")
