"""What to run, what to buy, what would change it: pipelines over the parts below."""
