"""From two model runs to recovery."""
