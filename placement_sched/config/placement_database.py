"""[placement_database]: where the data lives."""

from oslo_config import cfg

GROUP = "placement_database"

#: The database of a first run: a file in the working directory.
EMBEDDED = "sqlite:///placement_sched.db"

OPTIONS = (
    cfg.StrOpt(
        "connection",
        secret=True,
        help="SQLAlchemy URL of the database: sqlite:///file, postgresql://user@host/db or "
        "mysql://user@host/db. Unset: an embedded SQLite file placement_sched.db in the working "
        "directory, its schema made at start. It may be the database of an OpenStack placement.",
    ),
    cfg.StrOpt(
        "connection_parameters",
        default="",
        help="Parameters to append to the URL of connection, as param1=value1&param2=value2.",
    ),
    cfg.BoolOpt(
        "sync_on_startup",
        default=False,
        help="Create or upgrade the schema when the server starts (SQLite, which is "
        "embedded, always does). Otherwise run placement-sched db sync.",
    ),
    cfg.IntOpt(
        "max_pool_size",
        default=5,
        min=0,
        help="Connections each worker keeps open, for reading and for writing alike; 0 all it "
        "has opened.",
    ),
    cfg.IntOpt(
        "max_overflow",
        default=50,
        min=0,
        help="Connections above max_pool_size that a worker may open for a while.",
    ),
    cfg.IntOpt(
        "pool_timeout",
        default=30,
        min=0,
        help="Seconds a request waits for a free connection before it is answered with 503.",
    ),
    cfg.IntOpt(
        "connection_recycle_time",
        default=3600,
        min=-1,
        deprecated_name="idle_timeout",
        help="Seconds after which an idle connection is replaced; -1 never.",
    ),
    cfg.IntOpt(
        "lock_timeout",
        default=10,
        min=1,
        help="Seconds a statement waits for a lock another writer holds (SQLite's busy timeout, "
        "lock_timeout of PostgreSQL, innodb_lock_wait_timeout of MariaDB).",
    ),
    cfg.IntOpt(
        "read_timeout",
        default=60,
        min=0,
        help="Seconds a reading statement may run before the database stops it and the request is "
        "answered with 503 (statement_timeout of PostgreSQL, max_statement_time of MariaDB); 0 no "
        "bound. Most take milliseconds; it ends what a request made too dear. A search for "
        "candidates of several statements is given up after as long.",
    ),
    cfg.StrOpt(
        "mysql_sql_mode",
        default="TRADITIONAL",
        help="The SQL mode of sessions on MariaDB and MySQL. Empty: the one the server is "
        "configured to.",
    ),
    cfg.BoolOpt(
        "sqlite_synchronous",
        default=True,
        help="Whether SQLite waits for the disk where its file would otherwise be at risk. False "
        "is faster, and a power failure may then damage the database.",
    ),
    cfg.IntOpt(
        "connection_debug",
        default=0,
        min=0,
        max=100,
        help="How much of the SQL is logged: from 50 on each statement with its parameters, at "
        "100 the rows read as well.",
    ),
    cfg.BoolOpt(
        "connection_trace",
        default=False,
        help="Whether each statement ends with a comment that names the function and line of this "
        "service that sent it, to be read in the database's own logs.",
    ),
)
