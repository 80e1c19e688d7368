# SPDX-License-Identifier: Apache-2.0
"""Options of [placement] and [placement_database]."""

from oslo_config import cfg

from placement_sched.config.settings import MAX_INT, MAX_WAIT, ClampedIntOpt, with_help

#: The database of a first run: a file in the working directory.
EMBEDDED = "sqlite:///placement_sched.db"

PLACEMENT = with_help(
    cfg.BoolOpt("randomize_allocation_candidates", default=False, mutable=True),
    "Answer GET /allocation_candidates with a uniform random sample of the candidates instead of "
    "the first by provider id. Without a limit only the order changes.",
    ClampedIntOpt("max_allocation_candidates", default=-1, lowest=-1, mutable=True),
    "Maximum number of candidates in a response, even if the caller sets a higher limit. -1: no "
    "maximum.",
    cfg.StrOpt(
        "allocation_candidates_generation_strategy",
        default="depth-first",
        choices=[
            ("depth-first", "all candidates of one tree before the next tree"),
            ("breadth-first", "a candidate of each tree in turn"),
        ],
        mutable=True,
    ),
    "Order of the trees from which candidates are generated, if a limit truncates them.",
    ClampedIntOpt("allocation_conflict_retry_count", default=10, lowest=0),
    "Maximum number of retries, with jitter, of a write after a deadlock or a concurrent update. "
    "After the last retry, the response is 409 or 503.",
    cfg.IntOpt("allocation_candidates_budget", default=1_000_000, min=0, mutable=True),
    "Maximum work, in steps, to combine groups, trees and sharing providers for a request for "
    "candidates. A step is a provider tried for a group (several steps with many groups or "
    "same_subtree rules), or 40 characters of a candidate (5 steps for a candidate with a single "
    "group, more with more groups). A request that needs more is answered with 400. "
    "0: no limit. A million steps take about a second, or 40 MB of candidates.",
    cfg.IntOpt("max_request_groups", default=64, min=1, mutable=True),
    "Maximum number of groups (resources, resources1, resources_NET, ...) in a request for "
    "candidates. A request with more is answered with 400.",
    cfg.IntOpt("max_member_of", default=256, min=1, mutable=True),
    "Maximum number of aggregate sets (member_of, unless forbidden) in a request for candidates. "
    "If groups, trees and sharing providers are combined, each set of the unsuffixed group is "
    "counted for each resource class of that group. A request with more is answered with 400.",
    cfg.BoolOpt("providers_in_memory", default=True),
    "Whether each worker caches the inventories, usages, traits, aggregates and trees of all "
    "providers in its memory for the candidate search. Each request first applies the changes of "
    "other writers from the change log, which is written by triggers in the database. Without the "
    "log, the database is searched. The cache takes about 1 kB per provider. placement-sched db "
    "sync creates the triggers, and removes them if this is false.",
    cfg.StrOpt("incomplete_consumer_project_id", default="00000000-0000-0000-0000-000000000000"),
    "Project of consumers written with microversions before 1.8, which have no project.",
    cfg.StrOpt("incomplete_consumer_user_id", default="00000000-0000-0000-0000-000000000000"),
    "User of consumers written with microversions before 1.8, which have no user.",
)

PLACEMENT_DATABASE = with_help(
    cfg.StrOpt("connection", secret=True),
    "SQLAlchemy URL of the database: sqlite:///file, postgresql://user@host/db or "
    "mysql://user@host/db. It may be the database of an OpenStack placement. Without any "
    "configuration file it is an SQLite file placement_sched.db in the working directory, whose "
    "schema is created at start. A configuration file without a database is rejected.",
    cfg.StrOpt("connection_parameters", default=""),
    "Parameters to append to the URL in connection, as param1=value1&param2=value2.",
    cfg.IntOpt("shown_at", min=0, max=MAX_INT),
    "Time of the fleet file whose content the database has, in seconds since 1970. The option "
    "--fleet sets it. Hosts are judged at this time, and every change is answered with 403.",
    cfg.BoolOpt("sync_on_startup", default=False),
    "Create or upgrade the schema when the server starts (always done for SQLite). Otherwise run "
    "placement-sched db sync.",
    ClampedIntOpt("max_pool_size", default=5, lowest=0),
    "Number of connections that each worker keeps open, for reading and for writing each. 0 or "
    "less: all that it has opened, without a maximum.",
    ClampedIntOpt("max_overflow", default=50, lowest=-1),
    "Maximum number of temporary connections above max_pool_size. -1: no maximum.",
    ClampedIntOpt("pool_timeout", default=30, lowest=0),
    "Maximum seconds that a request waits for a free connection, before it is answered with 503.",
    ClampedIntOpt(
        "connection_recycle_time", default=3600, lowest=-1, deprecated_name="idle_timeout"
    ),
    "Seconds after which an idle connection is replaced. -1: never.",
    cfg.IntOpt("lock_timeout", default=10, min=1, max=MAX_WAIT),
    "Maximum seconds that a statement waits for the lock of another writer (SQLite's busy timeout, "
    "lock_timeout of PostgreSQL, innodb_lock_wait_timeout of MariaDB).",
    cfg.IntOpt("read_timeout", default=60, min=0, max=MAX_WAIT),
    "Maximum seconds of a reading statement, before the database aborts it and the request is "
    "answered with 503 (statement_timeout of PostgreSQL, max_statement_time of MariaDB). 0: no "
    "limit. Most statements take milliseconds. It is also the maximum time of a candidate search "
    "with several statements.",
    cfg.StrOpt("mysql_sql_mode", default="TRADITIONAL"),
    "SQL mode of sessions on MariaDB and MySQL. Empty: the mode that the server configures.",
    cfg.BoolOpt("sqlite_synchronous", default=True),
    "Whether SQLite waits for the disk at critical moments (synchronous = NORMAL). False is "
    "faster, but a power failure may then damage the database.",
    ClampedIntOpt("connection_debug", default=0, lowest=0, highest=100),
    "Logging of SQL: from 50 on, statements with their parameters. At 100, also the rows.",
    cfg.BoolOpt("connection_trace", default=False),
    "Whether to append a comment with the function and line of this service to each statement, "
    "for the logs of the database.",
)
