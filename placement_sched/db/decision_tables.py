"""The tables of decisions: what was asked, how it went, and which instances it was about."""

from sqlalchemy import (
    Column,
    Index,
    Integer,
    PrimaryKeyConstraint,
    String,
    Table,
    UniqueConstraint,
)

from placement_sched.db.columns import Document, exact, metadata, stamps

decisions = Table(
    "sched_decisions",
    metadata,
    *stamps(),
    Column("id", Integer, primary_key=True, nullable=False),
    Column("uuid", String(36), nullable=False),
    Column("outcome", String(32), nullable=False),
    # What was asked for: a selection that is claimed, or one that is not.
    Column("kind", String(16), nullable=False, server_default="select"),
    Column("project_id", exact(255)),
    # The ids of the request: this service's own, and the one that the caller sent along.
    Column("request_id", exact(255)),
    Column("global_request_id", exact(255)),
    Column("policy", exact(255)),
    # The name of the flavor.
    Column("flavor", exact(255)),
    # A digest of the whole request: the same instance uuids with another digest are a conflict.
    Column("request_digest", String(64), nullable=False),
    Column("request", Document, nullable=False),
    Column("funnel", Document),
    Column("selections", Document, nullable=False),
    UniqueConstraint("uuid", name="uniq_sched_decisions0uuid"),
    Index("sched_decisions_created_at_idx", "created_at"),
    Index("sched_decisions_project_id_idx", "project_id", "id"),
    Index("sched_decisions_outcome_idx", "outcome", "id"),
    Index("sched_decisions_request_id_idx", "request_id"),
    Index("sched_decisions_global_request_id_idx", "global_request_id"),
    Index("sched_decisions_kind_idx", "kind", "id"),
    Index("sched_decisions_policy_idx", "policy", "id"),
    Index("sched_decisions_flavor_idx", "flavor", "id"),
    mysql_engine="InnoDB",
)

#: The instances that each decision was about, and where it put them.
decision_places = Table(
    "sched_decision_places",
    metadata,
    Column("decision_uuid", String(36), nullable=False),
    # Where in the request.
    Column("position", Integer, nullable=False),
    Column("instance_uuid", String(36), nullable=False),
    Column("host", exact(255)),
    PrimaryKeyConstraint("decision_uuid", "position"),
    Index("sched_decision_places_instance_uuid_idx", "instance_uuid"),
    Index("sched_decision_places_host_idx", "host"),
    mysql_engine="InnoDB",
)
