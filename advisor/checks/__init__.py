"""`advise check`: deployment files in, verdicts and findings out. Each step imports only those to its left.

    read/ ──► resolve/ ──► facts/ ──► rules/ ──► report/
    launches  Deployment   named      findings   text, JSON, SARIF, JUnit
    of a file and verdict  facts      and edits

`one_file` takes a file through the first four, `batch` takes many files, `run` is what the command calls. The verdict
is the one estimator's. Nothing here starts a process, opens a socket or runs what a file says.
"""
