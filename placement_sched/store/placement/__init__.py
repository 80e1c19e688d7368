"""Resource providers and what they have, by the nouns of the placement API."""
