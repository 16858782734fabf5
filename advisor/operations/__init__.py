"""What agents and HTTP clients may ask: a name, a schema of what is given, the whole answer. Nothing is written."""
