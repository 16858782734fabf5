"""`advise check`: deployment files in, verdicts and findings out.

    file ─► readers ─► Launch ─► settings ─► Deployment ─► the one estimator ─► fits
                          └────► facts ────► rules ────────────────────────► findings

Nothing here starts a process, opens a socket or runs what a file says.
"""
