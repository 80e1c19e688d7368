"""[placement] and [placement_database]: how candidates are answered, and where data is kept."""

from oslo_config import cfg

from placement_sched.config.opts import LARGEST, LONGEST_WAIT, described

#: The database of a first run: a file in the working directory.
EMBEDDED = "sqlite:///placement_sched.db"

PLACEMENT = described(
    cfg.BoolOpt("randomize_allocation_candidates", default=False, mutable=True),
    "Answer GET /allocation_candidates with a fair random sample of what fits instead of the "
    "first by provider id. Without a limit only the order changes.",
    cfg.IntOpt("max_allocation_candidates", default=-1, min=-1, max=LARGEST, mutable=True),
    "Upper bound of candidates in one answer, whatever limit the caller gives; -1 none.",
    cfg.StrOpt(
        "allocation_candidates_generation_strategy",
        default="depth-first",
        choices=[
            ("depth-first", "all candidates of one tree before the next tree"),
            ("breadth-first", "candidates of all trees in turn"),
        ],
        mutable=True,
    ),
    "From which trees candidates are taken first when a limit cuts them.",
    cfg.IntOpt("allocation_conflict_retry_count", default=10, min=0, max=LARGEST),
    "How often a write, of allocations or anything else, is retried, with jitter, after a deadlock "
    "or a concurrent update, before it is answered with 409 or 503.",
    cfg.IntOpt("allocation_candidates_budget", default=1_000_000, min=0, mutable=True),
    "How much work one request for candidates may make where groups, trees and sharing providers "
    "are combined: a step for each provider tried for a group (more where there are many groups or "
    "many rules of same_subtree), and one for every 40 characters of a candidate found (the more "
    "groups and providers it names, the more: 5 for one of one group). A request that needs more "
    "is answered with 400; 0 no bound. A million steps take about a second, or 40 MB of "
    "candidates.",
    cfg.IntOpt("max_request_groups", default=64, min=1, mutable=True),
    "How many groups (resources, resources1, resources_NET, ...) one request for candidates may "
    "have; one with more is answered with 400.",
    cfg.IntOpt("max_member_of", default=256, min=1, mutable=True),
    "How many sets of aggregates (member_of, unless forbidden) one request for candidates may "
    "name. Where groups, trees and sharing providers are combined, those of the group without "
    "suffix count once for each of its resource classes. One with more is answered with 400.",
    cfg.BoolOpt("providers_in_memory", default=True),
    "Whether each worker keeps inventories, usages, traits, aggregates and trees of all providers "
    "in its memory, where candidates are then searched for. Every request first reads from the log "
    "of changes, which triggers in the database write, what others have changed; where the log is "
    "not kept, the database is searched. It takes about 1 kB a provider. The triggers are made by "
    "placement-sched db sync, and removed by it where this is false.",
    cfg.StrOpt("incomplete_consumer_project_id", default="00000000-0000-0000-0000-000000000000"),
    "Project of consumers written before microversion 1.8, which names none.",
    cfg.StrOpt("incomplete_consumer_user_id", default="00000000-0000-0000-0000-000000000000"),
    "User of consumers written before microversion 1.8, which names none.",
)

PLACEMENT_DATABASE = described(
    cfg.StrOpt("connection", secret=True),
    "SQLAlchemy URL of the database: sqlite:///file, postgresql://user@host/db or "
    "mysql://user@host/db. It may be the database of an OpenStack placement. Without any "
    "configuration file it is an SQLite file placement_sched.db in the working directory, whose "
    "schema is made at start; a configuration that names no database is refused.",
    cfg.StrOpt("connection_parameters", default=""),
    "Parameters to append to the URL of connection, as param1=value1&param2=value2.",
    cfg.BoolOpt("sync_on_startup", default=False),
    "Create or upgrade the schema when the server starts (SQLite, which is embedded, always "
    "does). Otherwise run placement-sched db sync.",
    cfg.IntOpt("max_pool_size", default=5, min=0, max=LARGEST),
    "Connections each worker keeps open, for reading and for writing alike; 0 all it has opened.",
    cfg.IntOpt("max_overflow", default=50, min=0, max=LARGEST),
    "Connections above max_pool_size that a worker may open for a while.",
    cfg.IntOpt("pool_timeout", default=30, min=0, max=LARGEST),
    "Seconds a request waits for a free connection before it is answered with 503.",
    cfg.IntOpt(
        "connection_recycle_time", default=3600, min=-1, max=LARGEST, deprecated_name="idle_timeout"
    ),
    "Seconds after which an idle connection is replaced; -1 never.",
    cfg.IntOpt("lock_timeout", default=10, min=1, max=LONGEST_WAIT),
    "Seconds a statement waits for a lock another writer holds (SQLite's busy timeout, "
    "lock_timeout of PostgreSQL, innodb_lock_wait_timeout of MariaDB).",
    cfg.IntOpt("read_timeout", default=60, min=0, max=LONGEST_WAIT),
    "Seconds a reading statement may run before the database stops it and the request is answered "
    "with 503 (statement_timeout of PostgreSQL, max_statement_time of MariaDB); 0 no bound. Most "
    "take milliseconds; it ends what takes too long. A search for candidates of several "
    "statements is given up after as long.",
    cfg.StrOpt("mysql_sql_mode", default="TRADITIONAL"),
    "The SQL mode of sessions on MariaDB and MySQL. Empty: the one the server is configured to.",
    cfg.BoolOpt("sqlite_synchronous", default=True),
    "Whether SQLite waits for the disk where its file would otherwise be at risk. False is "
    "faster, and a power failure may then damage the database.",
    cfg.IntOpt("connection_debug", default=0, min=0, max=100),
    "How much of the SQL is logged: from 50 on each statement with its parameters, at 100 the "
    "rows read as well.",
    cfg.BoolOpt("connection_trace", default=False),
    "Whether each statement ends with a comment that names the function and line of this service "
    "that sent it, to be read in the database's own logs.",
)
