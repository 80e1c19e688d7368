"""Resource providers and their data, by the nouns of the placement API."""
