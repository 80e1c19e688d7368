# SPDX-License-Identifier: Apache-2.0
"""SQL statements, in a module for each kind of resource.

The functions take a connection, return objects of the model, and never commit.
"""
