"""Who runs now: a pure machine from events and a time to plans."""
