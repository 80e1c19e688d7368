"""Other services, asked over HTTP: placement, nova, neutron and who attests hosts.

clouds.yaml, or the options, tell where they are.
"""
