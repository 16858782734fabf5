"""The same answers for agents: tools with JSON schemas, short answers, and a server of the Model Context Protocol."""
