"""What all parts agree on: stdlib and numpy only, no clock, no threads, no environment."""
