"""The emulated Trusted Platform Module.

Sources: nova's documentation, "Emulated Trusted Platform Module (vTPM)" and "Extra Specs"
(``hw:tpm_*``).
"""

from collections.abc import Mapping
from types import MappingProxyType

from placement_sched.errors import Invalid
from placement_sched.model.flavor import Flavor
from placement_sched.model.image import Image
from placement_sched.scheduler.hardware.both import agreed_one_of, of_flavor, one_of, place

_VERSIONS: Mapping[str, str] = MappingProxyType(
    {"1.2": "COMPUTE_SECURITY_TPM_1_2", "2.0": "COMPUTE_SECURITY_TPM_2_0"}
)
_TIS, _CRB = "tpm-tis", "tpm-crb"
_MODELS: Mapping[str, str] = MappingProxyType(
    {_TIS: "COMPUTE_SECURITY_TPM_TIS", _CRB: "COMPUTE_SECURITY_TPM_CRB"}
)
_SECRET_SECURITY = ("user", "host", "deployment")


def tpm_traits(flavor: Flavor, image: Image) -> tuple[str, ...]:
    """Return the traits of the model and of the version asked for; none where no TPM is.

    A version asks for a TPM; a model alone does not. Raises :class:`Invalid` for values that are
    none, for different ones, and for the CRB model of another version than 2.0.
    """
    version = agreed_one_of(flavor, image, "tpm_version", _VERSIONS)
    if version is None:
        return ()
    model = agreed_one_of(flavor, image, "tpm_model", _MODELS) or _TIS
    if model == _CRB and version != "2.0":
        raise Invalid(
            f"{place(flavor, image, 'tpm_model')} is {model!r}, which needs "
            f"{place(flavor, image, 'tpm_version')} to be '2.0', not {version!r}"
        )
    return (_MODELS[model], _VERSIONS[version])


def secret_security(flavor: Flavor, image: Image) -> str | None:
    """Return who keeps the TPM's secret: ``user``, ``host`` or ``deployment``; None without TPM.

    Only flavors say it. Raises :class:`Invalid` for another keeper, and as :func:`tpm_traits`.
    """
    if not tpm_traits(flavor, image):
        return None
    keeper = flavor.extra_specs.get("hw:tpm_secret_security") or _SECRET_SECURITY[0]
    return one_of(keeper, _SECRET_SECURITY, of_flavor("tpm_secret_security"))
