"""What engines start, read from their own packages without importing them."""
