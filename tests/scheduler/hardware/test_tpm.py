"""The emulated TPM (nova 34 observed)."""

import pytest

from placement_sched.errors import Invalid
from placement_sched.scheduler.hardware.tpm import secret_security, tpm_traits
from tests.scheduler.hardware.asked import flavor_of, image_of

TIS, CRB = "COMPUTE_SECURITY_TPM_TIS", "COMPUTE_SECURITY_TPM_CRB"
OLD, NEW = "COMPUTE_SECURITY_TPM_1_2", "COMPUTE_SECURITY_TPM_2_0"
KEEPER = "hw:tpm_secret_security"


@pytest.mark.parametrize(
    ("extra_specs", "properties", "traits", "keeper"),
    [
        ({}, {}, (), None),
        ({"hw:tpm_model": "junk", KEEPER: "junk"}, {"hw_tpm_model": "tpm-crb"}, (), None),
        ({"hw:tpm_version": "1.2"}, {}, (TIS, OLD), "user"),
        ({"hw:tpm_version": "2.0", "hw:tpm_model": "tpm-crb"}, {}, (CRB, NEW), "user"),
        ({KEEPER: "host"}, {"hw_tpm_version": "2.0"}, (TIS, NEW), "host"),
        ({"hw:tpm_version": "2.0", KEEPER: ""}, {"hw_tpm_model": "tpm-crb"}, (CRB, NEW), "user"),
        ({"hw:tpm_version": "2.0", KEEPER: "deployment"}, {}, (TIS, NEW), "deployment"),
    ],
)
def test_tpm_traits_and_keeper_are_those_of_the_version_asked(
    extra_specs, properties, traits, keeper
):
    flavor, image = flavor_of(extra_specs), image_of(properties)
    assert tpm_traits(flavor, image) == traits
    assert secret_security(flavor, image) == keeper


@pytest.mark.parametrize(
    ("extra_specs", "properties", "named"),
    [
        ({"hw:tpm_version": "3"}, {}, ("hw:tpm_version",)),
        (
            {"hw:tpm_version": "1.2"},
            {"hw_tpm_version": "2.0"},
            ("hw:tpm_version", "hw_tpm_version"),
        ),
        ({"hw:tpm_version": "2.0", "hw:tpm_model": "x"}, {}, ("hw:tpm_model",)),
        (
            {"hw:tpm_version": "2.0", "hw:tpm_model": "tpm-tis"},
            {"hw_tpm_model": "tpm-crb"},
            ("hw:tpm_model", "hw_tpm_model"),
        ),
        (
            {"hw:tpm_version": "1.2"},
            {"hw_tpm_model": "tpm-crb"},
            ("hw:tpm_version", "hw_tpm_model"),
        ),
        ({"hw:tpm_version": "2.0", KEEPER: "nobody"}, {}, (KEEPER,)),
    ],
)
def test_tpm_that_cannot_be_is_refused_naming_the_keys(extra_specs, properties, named):
    with pytest.raises(Invalid) as refused:
        secret_security(flavor_of(extra_specs), image_of(properties))
    assert all(f"'{key}'" in refused.value.detail for key in named)
