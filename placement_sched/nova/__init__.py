"""What makes this service part of a nova: RPC, databases, and running beside nova-scheduler."""
