"""Speed: what a deployment's memory traffic allows, with intervals."""
