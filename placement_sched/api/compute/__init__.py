"""The part of the compute API that operators use to describe the cloud."""
