"""The microversions of the compute API and what each brought, by name.

Source: "REST API Version History" of the nova documentation.
"""

from placement_sched.api.microversion import Version, Versioning

VERSIONING = Versioning("compute", Version(2, 1), Version(2, 96))

NO_ACCESS_TO_PUBLIC_FLAVORS = Version(2, 7)
SERVER_GROUP_OWNERS = Version(2, 13)
AGGREGATE_UUIDS = Version(2, 41)
FLAVOR_DESCRIPTION = Version(2, 55)
FLAVOR_EXTRA_SPECS = Version(2, 61)
#: A server group has one policy and its rules, rather than policies and metadata.
SERVER_GROUP_RULES = Version(2, 64)
#: Unknown query parameters are refused, and no swap of a flavor is 0 rather than "".
CONSISTENT = Version(2, 75)
IMAGE_CACHING = Version(2, 81)
EXTRA_SPEC_VALIDATION = Version(2, 86)
