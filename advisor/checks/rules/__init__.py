"""The rules of rules/checks/rules: loaded, held against the facts of a launch, turned into findings and edits."""
