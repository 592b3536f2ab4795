"""Metric names and buckets (shared with the simulator's reports), and the meter that fills them."""
