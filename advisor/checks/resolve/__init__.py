"""A launch in, what it deploys out: engine, model, hardware, settings, as the one estimator takes them."""
