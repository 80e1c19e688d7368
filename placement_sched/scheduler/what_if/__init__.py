"""What would be if the cloud were another: changes that one question sees and nothing else does."""
