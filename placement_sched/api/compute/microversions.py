"""The microversions of the compute API and what each brought, by name.

Source: "REST API Version History" of the nova documentation.
"""

from placement_sched.api.microversion import Version, Versioning

VERSIONING = Versioning("compute", Version(2, 1), Version(2, 96))

AGGREGATE_UUIDS = Version(2, 41)
IMAGE_CACHING = Version(2, 81)
