# SPDX-License-Identifier: Apache-2.0
"""Helpers of tests of several folders.

A helper of a single area is in the folder of its tests. In all folders, the naive search is
``tests/candidates/reference.py``, and the verifier of the books is ``tests/verifier``.

Fixtures of ``tests/conftest.py``. Those of a folder are in the ``conftest.py`` of the folder:

- ``settings``, ``database``, ``app``: on each database. ``app`` is a client with an administrator
- ``sqlite_settings``, ``sqlite_database``, ``sqlite_app``: the same on SQLite alone
- ``database_url``, ``sqlite_url``: the URL of an empty database with the schema
- ``make_app``: a function that returns a client of an application with other settings
- ``app_without_cache``: an application whose requests load the providers by SQL
- ``provider_cache_thread``: a thread fills the provider cache, as in a server
- ``own_conf``: an oslo.config object that the test may change
- ``add_revision``: a function that adds a schema revision without changes
- ``postgresql_server``, ``mysql_server``, ``broker``: a server, or the test is skipped
- ``sqlite_template``: an SQLite file with the schema, to be copied

Modules of this folder:

- ``allocation_bodies``: bodies of allocation writes at each microversion
- ``api_clouds``: hosts, zones, flavors and instances, created through the APIs
- ``clouds``: clouds of providers as plain values, their uuids, and a loader
- ``commands``: run a command to its end
- ``concurrency``: run functions at the same moment in threads, or before each statement
- ``conformance``: compare responses with the OpenAPI documents
- ``empty_databases``: databases without tables
- ``explanations``: explanations in the format of the scheduler API
- ``host_maps``: host aggregates that are not synced to placement
- ``hosts``: hosts, providers, instances and flavors, written by SQL
- ``identity``: a fake keystone, and a configuration for it
- ``keystone``: OpenStack's keystone
- ``large_bodies``: bodies of requests with many names
- ``loopback``: free ports, WSGI applications in threads, and fake services that fail
- ``mariadb``: a MariaDB server of its own
- ``metrics``: samples of ``/metrics``
- ``neutron``: a fake neutron
- ``nova_clouds``: nova's databases
- ``openstack_databases``: databases with the schema of OpenStack placement's releases
- ``placements``: place instances until a cloud is full
- ``policies``: settings with scheduling policies
- ``postgresql``: PostgreSQL servers of their own, a standby, and parts of any database server
- ``processes``: run functions at the same moment in processes
- ``program``: ``placement-sched`` as a forked process
- ``providers``: providers with inventories, written by SQL
- ``recorded_reports``: recorded reports of hosts, their providers and services
- ``rejection_kinds``: the kinds of rejections that the API reference documents
- ``reports``: reports of compute nodes
- ``repository``: folders, modules, importers and make targets of the repository
- ``scheduling``: reports and request specs, and requests to the scheduler API
- ``schema_differences``: compare a database with ``db/tables.py``
- ``servers``: ``placement-sched serve`` and other servers in processes
- ``simulations``: a cloud for simulated changes, and the rows of its tables
- ``statements``: run and record SQL statements, also without foreign keys
- ``states``: host states, requests and settings of plugins, without a database
- ``versions``: the newest microversions
"""
