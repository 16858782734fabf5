"""What a machine has: a probe for each vendor, limits, snapshots."""
