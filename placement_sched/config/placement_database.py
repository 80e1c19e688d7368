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
    cfg.BoolOpt(
        "sync_on_startup",
        default=False,
        help="Create or upgrade the schema when the server starts (the embedded database always "
        "does). Otherwise run placement-sched db sync.",
    ),
    cfg.IntOpt(
        "max_pool_size",
        default=5,
        min=1,
        help="Connections each worker keeps open, for reading and for writing alike.",
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
        min=1,
        help="Seconds a request waits for a free connection before it is answered with 503.",
    ),
    cfg.IntOpt(
        "connection_recycle_time",
        default=3600,
        min=-1,
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
        "max_retries",
        default=10,
        min=0,
        help="How often a write that met a deadlock or a rival is tried again, with jitter, "
        "before it is answered with 409 or 503.",
    ),
)
