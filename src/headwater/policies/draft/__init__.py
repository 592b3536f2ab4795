"""Room `draft`: which tokens to guess. Guesses are verified against the target's own draws, so that no resident can change an answer."""
