# SPDX-License-Identifier: Apache-2.0
"""Limits of requests and resources, with their reasons.

A request that exceeds a limit is answered with an error that names the limit. Limits of lists,
records, metrics and notices only shorten them. The page "Limits and errors" of the guide shows all
limits, with these comments.
"""

# Requests
#: Bytes of a JSON body, except for routes that accept many resources in a request.
MAX_JSON_BYTES = 2**20
#: Values of a JSON body. More values take a second to parse and check.
MAX_JSON_VALUES = 250_000
#: Nesting depth of a JSON body. Python's functions fail at some hundreds.
MAX_JSON_DEPTH = 100
#: Seconds for a body, or for its next 640 KiB, to arrive. After X.
MAX_BODY_WAIT = 10.0
#: Bytes of a body over ``max_request_body_size`` that are read before the response 413.
MAX_DISCARDED_BYTES = 256 * 2**20
#: Seconds to read a body over ``max_request_body_size`` before the response 413.
MAX_DISCARD_SECONDS = 30.0
#: Bytes of a small body, which does not count towards the memory of all bodies.
MAX_UNCOUNTED_BYTES = 64 * 2**10
#: Bytes of all lines of a header. Processing a header, such as roles, takes time.
MAX_HEADER_BYTES = 16 * 1024
#: Bytes of all headers of a request.
MAX_HEADERS_BYTES = 64 * 1024
#: Entries of a page of the compute API, also if more are requested (nova's ``[api] max_limit``).
MAX_PAGE = 1000
#: Images of a page (glance's default).
MAX_IMAGES_PER_PAGE = 1000
#: Characters of all properties and tags on a page of images, which could be a gigabyte.
MAX_IMAGE_PAGE_CHARACTERS = 4_000_000
#: Characters of the project id, or of the user id, of a request (as in placement's columns).
MAX_ID_CHARACTERS = 255
#: Characters of a value that an error repeats.
MAX_VALUE_CHARACTERS = 120
#: Characters of an error's detail, which may repeat a long part of the request.
MAX_DETAIL_CHARACTERS = 1_500
#: Existing names that an error lists if none is similar to an unknown name.
MAX_LISTED_NAMES = 10

# Placement
#: Conditions on traits and aggregates in a query. Without the cache, each is a part of the SQL.
MAX_CONDITIONS = 1_000
#: Inventories, traits or aggregates of a provider in a request.
MAX_PROVIDER_ITEMS = 5_000
#: Inventories, and providers, of a reshaper request. The largest request takes a second of CPU.
MAX_RESHAPER_INVENTORIES = 5_000
#: Consumers of a reshaper request.
MAX_RESHAPER_CONSUMERS = 2_500
#: Amounts in a request with allocations of several consumers. Twice as many take a second of CPU.
MAX_ALLOCATION_AMOUNTS = 10_000
#: Characters of the name of a trait (as in OpenStack placement's column).
MAX_TRAIT_CHARACTERS = 255
#: Characters of ``hypervisor_hostname``, the name of a root provider (as in placement's column).
MAX_HYPERVISOR_CHARACTERS = 200
#: Listed violations of an invariant.
MAX_VIOLATIONS = 1000

# Scheduling
#: Instances of a request, which are all placed in a single transaction.
MAX_INSTANCES = 1_000
#: Scheduling requests in a single call, which are searched and filtered in turn.
MAX_REQUESTS = 10
#: Sets of aggregates that a request requires, so that every database accepts the SQL statement.
MAX_AGGREGATE_SETS = 20
#: Aggregates in a required set of aggregates.
MAX_AGGREGATES_PER_SET = 250
#: Aggregates that a request forbids.
MAX_FORBIDDEN_AGGREGATES = 5_000
#: Hosts, nodes, group members, or instances in a scheduler hint, of a request.
MAX_NAMES = 10_000
#: Unknown hosts, nodes or zones of a request that a result lists with similar names. A comparison
#: with all names of the cloud takes milliseconds.
MAX_COMPARED_NAMES = 10
#: Similar names that a result lists for an unknown name.
MAX_SIMILAR_NAMES = 3
#: Networks of a request. Each may cost a request to neutron.
MAX_NETWORKS = 100
#: Segments of a network in a request. Send a network with more segments by its id.
MAX_SEGMENTS = 1_000
#: Bytes of flavor and image, times the number of instances. Each instance records them.
MAX_RECORDED_BYTES = 10_000_000
#: Alternates (further hosts for a retry) of all instances of a request.
MAX_ALTERNATES = 20_000
#: Resource amounts requested by all instances of a request.
MAX_REQUESTED_AMOUNTS = 6_000
#: Members of the request's server group, times the number of instances.
MAX_MEMBERSHIPS = 1_000_000
#: NUMA nodes and PCI requests, times the number of instances. Each is fitted to hosts separately.
MAX_FITTED = 1_600
#: Flavors of a capacity request. Instances of each flavor are counted on all hosts.
MAX_CAPACITY_FLAVORS = 30
#: Queries of load in the configuration. Each is sent to Prometheus at every collection.
MAX_LOAD_QUERIES = 20
#: Changes of a simulation, such as a drain of hosts.
MAX_CHANGES = 100
#: Hosts in a change of a simulation.
MAX_CHANGED_HOSTS = 10_000
#: Copies of hosts that all changes of a request add.
MAX_HOST_COPIES = 1000
#: Moves of a rebalance request.
MAX_MOVES = 1000
#: Moves, and instances that cannot move, of a plan that is carried out.
MAX_PLAN_MOVES = 2_000
#: Characters of the recorded error of a move.
MAX_MESSAGE_CHARACTERS = 4_096
#: Hosts whose capacity a rebalance request tries to free.
MAX_REBALANCE_TARGETS = 200
#: Sets of instances of a host whose moves a rebalance request considers.
MAX_REBALANCE_SETS = 5_000
#: Sets of instances that a rebalance request moves in simulations.
MAX_REBALANCE_RUNS = 2_000
#: Hosts, or domains, of a failover request that fail together.
MAX_HOST_FAILURES = 10
#: Sets of hosts that could fail together, each examined. For more sets, a bound is reported.
MAX_FAILURE_SETS = 2_000
#: Hosts, or domains, in a result whose failure is not covered, each with its instances.
MAX_REPORTED_FAILURES = 100
#: Flavors whose further instances are counted, as long as no failure gets worse.
MAX_FAILOVER_FLAVORS = 50
#: Queries about the whole cloud that a process runs at the same time. Each takes seconds, and other
#: requests need a thread.
MAX_EXPENSIVE_QUERIES = 2
#: Attempts of a request that loses its hosts to concurrent requests. Each attempt sees the earlier
#: claims, so the number of concurrent requests bounds the attempts.
MAX_CLAIM_ATTEMPTS = 100
#: Decisions that are examined for a page of decisions that rejected a host.
MAX_EXAMINED_DECISIONS = 1_000
#: Near misses of an explanation: sets of constraints without which hosts are evaluated.
MAX_NEAR_MISSES = 5
#: Hosts that are evaluated without a near miss (the default limit of candidates).
MAX_NEAR_MISS_HOSTS = 1_000
#: Hosts that an explanation names for a suggested change.
MAX_FIT_EXAMPLES = 5
#: Hosts of a replayed decision with a current verdict.
MAX_REPLAY_VERDICTS = 10
#: Bytes of JSON of the overrides, and of the changes, of a recorded explanation.
MAX_RECORDED_OPTIONS_BYTES = 16_384
#: Entries of an overridden option, which plugins read for each host.
MAX_OPTION_ENTRIES = 1000
#: Characters of an overridden option.
MAX_OPTION_CHARACTERS = 16_384
#: Nesting depth of the hint ``query`` of JsonFilter.
MAX_QUERY_DEPTH = 50
#: Values of the hint ``query``, which is evaluated for each host and repeated in rejections.
MAX_QUERY_VALUES = 200
#: Characters of the hint ``query``.
MAX_QUERY_CHARACTERS = 4_096
#: Compute nodes of a report, each written with its inventories.
MAX_REPORTS = 2_000
#: Largest allocation ratio of a policy.
MAX_RATIO = 10_000.0
#: Zones, aggregates, hosts or cells of the largest capacity report that counts each part alone.
MAX_RECOUNTED_PARTS = 100
#: Values of a field, such as flavors, in the counts of decisions.
MAX_COUNTED_VALUES = 20
#: Intervals of the counts of decisions over time.
MAX_COUNTED_INTERVALS = 150
#: Bytes of JSON of a recorded funnel. The longest lists of a larger funnel are shortened.
MAX_FUNNEL_BYTES = 65_536
#: Best hosts of a recorded decision, with their weights.
MAX_BEST_HOSTS = 5
#: Rejected hosts of a stage in a recorded decision, or fewer if its funnel is too large.
MAX_RECORDED_REJECTIONS = 100
#: Hosts that passed all filters in a record of the shadow.
MAX_SHADOW_PASSED = 1_000
#: Rejected hosts in a record of the shadow.
MAX_SHADOW_REJECTED = 500
#: Best hosts of an instance in a record of the shadow.
MAX_SHADOW_BEST = 200
#: Best hosts of all instances in a record of the shadow.
MAX_SHADOW_BEST_OF_REQUEST = 2_000
#: Hosts in the overview of the cloud that are not up.
MAX_ATTENTION_HOSTS = 100

# Flavors, images, aggregates and server groups
#: Extra specs of a flavor in a request, which are read for each host. nova has no limit.
MAX_EXTRA_SPECS = 500
#: Properties of a stored image (glance's default).
MAX_IMAGE_PROPERTIES = 128
#: Tags of a stored image (glance's default).
MAX_IMAGE_TAGS = 128
#: Operations of a patch of an image. Each copies the attributes of the image.
MAX_IMAGE_OPERATIONS = 1_000
#: Characters of all property names and values of a stored image.
MAX_IMAGE_PROPERTY_CHARACTERS = 128 * 1024
#: Properties of an image that a request describes.
MAX_REQUEST_IMAGE_PROPERTIES = 1000
#: Metadata keys of an aggregate in a request. nova has no limit.
MAX_AGGREGATE_METADATA = 1000
#: Characters of the JSON of an instance's metadata or system metadata from nova.
MAX_METADATA_CHARACTERS = 128 * 1024

# NUMA nodes, CPUs and PCI devices
#: NUMA nodes whose CPUs and memory a flavor or image sets individually.
MAX_NUMA_NODES = 128
#: Upper bound of CPU numbers. A larger number is a typing error that would fill the memory.
MAX_CPUS = 65_536
#: Characters of a CPU set, such as ``0-3,8``: enough for a list of 1024 CPUs.
MAX_CPU_SET_CHARACTERS = 6_144
#: Steps to fit the NUMA nodes of a request on all hosts, which take a fifth of a second.
MAX_NUMA_STEPS = 20_000
#: Allocation candidates, in addition to the first of each host, that NUMA nodes are fitted to.
MAX_NUMA_CANDIDATES = 1_000
#: Devices of a PCI alias.
MAX_PCI_DEVICES = 4096
#: PCI requests of an instance.
MAX_PCI_REQUESTS = 64
#: Keys in the specs of all PCI requests, which are compared with each pool of each host.
MAX_PCI_SPEC_KEYS = 500

# Fleet files
#: Names that a pattern expands to.
MAX_PATTERN_NAMES = 1_000_000

# Operation
#: Flavors whose capacity ``/metrics`` shows, the first in ``capacity_flavors``.
MAX_METRIC_FLAVORS = 50
#: Zones, and resource classes, that ``/metrics`` shows by name. The others are summed.
MAX_METRIC_NAMES = 50
#: Instances without allocations that a check of the cloud lists. All of them are counted.
MAX_NAMED_INSTANCES = 100
#: Waiting requests, the newest first, that a round of notices evaluates.
MAX_NOTICES = 100
#: Addresses that get notices, the first in ``waiting_webhook_urls``.
MAX_NOTICE_ADDRESSES = 10

# Console
#: Hosts of all aggregates that the console lists by name. For more, it links to the map.
MAX_LISTED_HOSTS = 2000
#: Hits of each kind, such as hosts, in the search of the console.
MAX_SEARCH_HITS = 20
