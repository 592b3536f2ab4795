"""Virtual time: the scheduler, kv and policies of the real engine over a simulated executor."""
