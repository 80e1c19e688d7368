"""Questions about the cloud and its room, which change nothing."""
