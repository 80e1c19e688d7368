# SPDX-License-Identifier: Apache-2.0
"""tpm_secret_security_filter: the secret of a TPM is kept as the flavor says."""

import pytest

from placement_sched.errors import Invalid
from placement_sched.scheduler.request_filters.root_traits import TPMSecretSecurityFilter
from tests.scheduler.explained import explained, put_hosts
from tests.scheduler.worlds import applied, root_required
from tests.support.scheduling import flavor, spec
from tests.support.states import a_spec, settings_with

PREFIX = "COMPUTE_SECURITY_TPM_SECRET_SECURITY"
TPM = {"hw:tpm_version": "2.0"}
KEY = "hw:tpm_secret_security"


@pytest.mark.parametrize(
    ("extra_specs", "properties", "trait"),
    [
        (TPM, {}, f"{PREFIX}_USER"),
        (TPM | {KEY: "user"}, {}, f"{PREFIX}_USER"),
        (TPM | {KEY: "host"}, {}, f"{PREFIX}_HOST"),
        (TPM | {KEY: "deployment"}, {}, f"{PREFIX}_DEPLOYMENT"),
        ({}, {"hw_tpm_version": "1.2"}, f"{PREFIX}_USER"),
        ({KEY: "host"}, {"hw_tpm_version": "2.0", "hw_tpm_model": "tpm-crb"}, f"{PREFIX}_HOST"),
    ],
    ids=["not said", "user", "host", "deployment", "image's TPM", "image's TPM, flavor's keeper"],
)
def test_each_keeper_has_its_trait(extra_specs, properties, trait):
    assert root_required(TPMSecretSecurityFilter, a_spec(extra_specs, properties)) == [trait]


@pytest.mark.parametrize(
    ("extra_specs", "properties"),
    [({}, {}), ({KEY: "host"}, {}), ({"hw:tpm_model": "tpm-tis", KEY: "host"}, {})],
    ids=["nothing", "keeper of no TPM", "model alone"],
)
def test_nothing_is_asked_without_a_tpm(extra_specs, properties):
    assert applied(TPMSecretSecurityFilter, a_spec(extra_specs, properties)) is None


@pytest.mark.parametrize(
    ("extra_specs", "properties", "keys"),
    [
        (TPM | {KEY: "notary"}, {}, [f"flavor extra spec '{KEY}'", "'notary'"]),
        (
            TPM,
            {"hw_tpm_version": "1.2"},
            ["flavor extra spec 'hw:tpm_version'", "image property 'hw_tpm_version'"],
        ),
    ],
    ids=["no keeper", "two versions"],
)
def test_what_cannot_be_is_refused_by_its_keys(extra_specs, properties, keys):
    with pytest.raises(Invalid) as refused:
        applied(TPMSecretSecurityFilter, a_spec(extra_specs, properties))
    for key in keys:
        assert key in refused.value.detail


def test_filter_is_always_on():
    assert TPMSecretSecurityFilter().enabled(settings_with())


def test_hosts_that_keep_it_otherwise_are_no_candidates(sqlite_app):
    tpm = ["COMPUTE_SECURITY_TPM_2_0", "COMPUTE_SECURITY_TPM_TIS"]
    put_hosts(sqlite_app, cn1=[*tpm, f"{PREFIX}_USER"], cn2=[*tpm, f"{PREFIX}_HOST"])
    told = explained(sqlite_app, spec(flavor=flavor(extra_specs=TPM | {KEY: "host"})))
    assert told.told_by("tpm_secret_security_filter") == {
        "applied": True,
        "changes": {"root_required": [f"{PREFIX}_HOST"]},
    }
    assert told.query["root_required"] == [f"{PREFIX}_HOST,!COMPUTE_STATUS_DISABLED"]
    assert told.hosts == ["cn2"]
