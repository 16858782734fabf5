"""`advise recommend`: ranked deployments for a machine, a model and a workload."""
