# SPDX-License-Identifier: Apache-2.0
"""Claims of consumers, and the stored allocations."""

from uuid import uuid4

from sqlalchemy import select

from placement_sched.db import tables
from placement_sched.model.provider import UNCHECKED, ConsumerClaim
from placement_sched.store.placement import allocations, resource_providers
from tests.support.providers import NOW
from tests.support.statements import run_query

PROJECT_AND_USER = {"project_id": "project", "user_id": "user"}


def build_claim(
    consumer=None, generation=UNCHECKED, owner=PROJECT_AND_USER, consumer_type=None, **amounts
):
    """Return a claim. ``on`` is ``{provider: {class: amount}}``."""
    return ConsumerClaim(
        consumer=consumer or str(uuid4()),
        allocations=amounts.get("on", {}),
        generation=generation,
        consumer_type=consumer_type,
        **owner,
    )


def build_vcpu_claim(provider, amount, consumer=None, generation=UNCHECKED, **more):
    return build_claim(consumer, generation, on={provider: {"VCPU": amount}}, **more)


def replace_allocations(database, *claims):
    database.write(lambda connection: allocations.replace(connection, claims, NOW))


def read_allocations(database, *consumers):
    """Return the allocations of consumers as ``{(consumer, provider, class): used}``."""
    with database.read() as connection:
        return {
            (row.consumer.uuid, row.provider_uuid, row.resource_class): row.used
            for row in allocations.list_by_consumers(connection, consumers)
        }


def read_provider_generation(database, provider):
    return run_query(database, resource_providers.get_by_uuid, provider).generation


def list_stored_consumers(database):
    with database.read() as connection:
        return set(connection.scalars(select(tables.consumers.c.uuid)))
