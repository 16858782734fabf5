"""The linter of the rules: everything that is wrong with rule folders, in one list.

    from advisor.lint.run import lint
    lint([shipped_root()])

`reading` turns files into plain data with lines, `shape` compares data with types, `kinds` says which type a file has,
`house` lays the folders over each other. Every other module is one concern: `faults(house)` yields what it finds.
"""
