# SPDX-License-Identifier: Apache-2.0
"""The microversions of the compute API, named by their changes.

Source: "REST API Version History" of the nova documentation.
"""

from placement_sched.api.versions import Version, Versioning

OLDEST = Version(2, 1)
SERVER_ATTRIBUTES = Version(2, 3)
NO_ACCESS_TO_PUBLIC_FLAVORS = Version(2, 7)
SERVER_LOCKED = Version(2, 9)
FORCED_DOWN = Version(2, 11)
SERVER_GROUP_OWNERS = Version(2, 13)
SOFT_AFFINITY = Version(2, 15)
HOST_STATUS = Version(2, 16)
SERVER_DESCRIPTION = Version(2, 19)
MIGRATION_TYPE = Version(2, 23)
SERVER_TAGS = Version(2, 26)
CPU_INFO_OBJECT = Version(2, 28)
HYPERVISOR_PAGES = Version(2, 33)
AGGREGATE_UUIDS = Version(2, 41)
EMBEDDED_FLAVOR = Version(2, 47)
#: Services and hypervisors are identified by uuid, and a single path updates a service.
UUIDS = Version(2, 53)
FLAVOR_DESCRIPTION = Version(2, 55)
#: Migrations have uuids and pages.
MIGRATION_PAGES = Version(2, 59)
FLAVOR_EXTRA_SPECS = Version(2, 61)
TRUSTED_CERTIFICATES = Version(2, 63)
#: A server group has a policy and its rules, rather than policies and metadata.
SERVER_GROUP_RULES = Version(2, 64)
CHANGES_BEFORE = Version(2, 66)
SERVER_GROUPS_OF_SERVER = Version(2, 71)
LOCKED_REASON = Version(2, 73)
#: Unknown query parameters are rejected, and a flavor without swap has 0 rather than "".
CONSISTENT = Version(2, 75)
#: Migrations show their project and user.
MIGRATION_OWNERS = Version(2, 80)
IMAGE_CACHING = Version(2, 81)
EXTRA_SPEC_VALIDATION = Version(2, 86)
#: Hypervisors lose the fields that placement has, and show their uptime.
LEAN_HYPERVISORS = Version(2, 88)
HOSTNAME_FOR_ALL = Version(2, 90)
PINNED_ZONE = Version(2, 96)
#: Servers show the properties of their image.
SERVER_IMAGE_PROPERTIES = Version(2, 98)
SERVER_HINTS = Version(2, 100)

NEWEST = SERVER_HINTS

VERSIONING = Versioning("compute", OLDEST, NEWEST, plain=True)
