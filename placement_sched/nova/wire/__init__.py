"""Nova's versioned objects as they travel over RPC, taken apart and put together; no I/O."""
