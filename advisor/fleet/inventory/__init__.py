"""What is there: readers of Kubernetes, Slurm, Ray, snapshots and our own YAML, each to the same nodes."""
