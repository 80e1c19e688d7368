# SPDX-License-Identifier: Apache-2.0
"""Tables, engines, transactions and migrations of the database."""
