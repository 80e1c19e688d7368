# SPDX-License-Identifier: Apache-2.0
"""Notifications of scheduling requests on a message bus, as nova sends them.

Source: "Notifications in Nova". Requests do not wait for the bus: notifications are queued, and a
separate thread sends them.
"""
