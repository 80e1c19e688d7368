# SPDX-License-Identifier: Apache-2.0
"""Microversions of the Placement API, named by their changes.

Source: "REST API Version History" of the Placement documentation.
"""

from placement_sched.api.versions import Version, Versioning

OLDEST = Version(1, 0)
PROVIDER_AGGREGATES = Version(1, 1)
CUSTOM_RESOURCE_CLASSES = Version(1, 2)
MEMBER_OF_ON_PROVIDERS = Version(1, 3)
RESOURCES_ON_PROVIDERS = Version(1, 4)
DELETE_ALL_INVENTORIES = Version(1, 5)
TRAITS = Version(1, 6)
IDEMPOTENT_CLASS_PUT = Version(1, 7)
CONSUMER_PROJECT_AND_USER = Version(1, 8)
USAGES = Version(1, 9)
ALLOCATION_CANDIDATES = Version(1, 10)
ALLOCATIONS_LINK = Version(1, 11)
ALLOCATIONS_BY_PROVIDER_UUID = Version(1, 12)
POST_ALLOCATIONS = Version(1, 13)
NESTED_PROVIDERS = Version(1, 14)
LAST_MODIFIED = Version(1, 15)
LIMIT = Version(1, 16)
REQUIRED_ON_CANDIDATES = Version(1, 17)
REQUIRED_ON_PROVIDERS = Version(1, 18)
AGGREGATE_GENERATIONS = Version(1, 19)
POST_PROVIDER_BODY = Version(1, 20)
MEMBER_OF_ON_CANDIDATES = Version(1, 21)
FORBIDDEN_TRAITS = Version(1, 22)
ERROR_CODES = Version(1, 23)
REPEATED_MEMBER_OF = Version(1, 24)
GRANULAR_GROUPS = Version(1, 25)
RESERVED_EQUALS_TOTAL = Version(1, 26)
ALL_CLASSES_IN_SUMMARIES = Version(1, 27)
CONSUMER_GENERATIONS = Version(1, 28)
NESTED_CANDIDATES = Version(1, 29)
RESHAPER = Version(1, 30)
IN_TREE_ON_CANDIDATES = Version(1, 31)
FORBIDDEN_AGGREGATES = Version(1, 32)
STRING_SUFFIXES = Version(1, 33)
MAPPINGS = Version(1, 34)
ROOT_REQUIRED = Version(1, 35)
SAME_SUBTREE = Version(1, 36)
REPARENTING = Version(1, 37)
CONSUMER_TYPES = Version(1, 38)
ANY_TRAITS = Version(1, 39)

#: The version that "latest" stands for.
NEWEST = ANY_TRAITS

VERSIONING = Versioning("placement", OLDEST, NEWEST)
