"""Who answers the items: our engine, or any model of the harness."""
