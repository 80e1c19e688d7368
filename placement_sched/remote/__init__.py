"""Other services, asked over HTTP: placement, nova, and clouds.yaml that tells where they are."""
