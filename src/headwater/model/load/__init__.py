"""From files of other people to a recorded program with packed weights."""
