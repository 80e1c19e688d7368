"""Other services, asked over HTTP: placement, nova, neutron and the attestation service.

Their addresses come from clouds.yaml or from the options.
"""
