"""Notifications of requests for hosts, sent over a message bus (nova: "Notifications in Nova").

No request waits for the bus: notifications are put in a queue, and a thread of its own sends them.
"""
