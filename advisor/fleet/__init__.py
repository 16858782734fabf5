"""Many models on the nodes that are there: what the nodes are, which replicas stand where, what they cost."""
