# SPDX-License-Identifier: Apache-2.0
"""HTTP clients of other services: placement, nova, neutron and the attestation service.

Their addresses come from clouds.yaml or from the options.
"""
