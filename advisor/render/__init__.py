"""Launch files from a Deployment: Jinja templates in a sandbox, every value quoted for where it lands."""
