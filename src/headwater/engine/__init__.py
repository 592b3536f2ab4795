"""The loop that joins scheduler, executor and text, and its fronts."""
