"""The linter of the rules: everything that is wrong with rule folders, in one list.

    from advisor.lint.run import lint
    lint([shipped_root()])

`reading` turns files into plain data with lines, `kinds` says which type a file has, `shape` compares data with types,
`pruning` leaves out what is faulty, `house` lays the folders over each other. Every other module is one concern:
`faults(house)` yields what it finds.
"""
