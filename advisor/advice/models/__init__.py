"""Which model to take, and what is known of one."""
