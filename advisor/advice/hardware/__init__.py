"""`advise hardware`: what to buy or rent."""
