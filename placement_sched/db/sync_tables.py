"""The table of what ``placement-sched placement sync_traits`` has put on providers."""

from sqlalchemy import Column, Index, Integer, String, Table

from placement_sched.db.columns import exact, metadata, stamps

#: A trait on a provider, and the aggregate whose metadata asked for it. By uuid and name, since
#: the provider and the trait may be gone while the record of them is still to be cleared. Whether
#: it is the provider that the trait was put on, or one made anew under its uuid, the id tells;
#: it is not known of what was put before it was kept.
synced_traits = Table(
    "sched_synced_traits",
    metadata,
    *stamps(),
    Column("provider_uuid", String(36), primary_key=True),
    Column("trait", exact(255), primary_key=True),
    Column("aggregate_uuid", String(36), nullable=False),
    Column("provider_id", Integer),
    Index("sched_synced_traits_aggregate_uuid_idx", "aggregate_uuid"),
    mysql_engine="InnoDB",
)
