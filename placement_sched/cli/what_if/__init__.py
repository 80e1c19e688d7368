"""Questions about a cloud that is changed for them alone: ``plan``, ``rebalance``, ``--change``."""
