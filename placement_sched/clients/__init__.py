# SPDX-License-Identifier: Apache-2.0
"""HTTP clients of placement, nova, neutron and attestation services.

The addresses of the services come from clouds.yaml or from the options.
"""
