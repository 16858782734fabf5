"""The named facts that rules ask about a launch. Each module holds one concern and its own table of facts."""
