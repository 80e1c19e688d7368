"""What others are told of requests for hosts, over a message bus (nova: "Notifications in Nova").

Nobody waits for the bus: what is told is put in a queue, and a thread of its own sends it.
"""
