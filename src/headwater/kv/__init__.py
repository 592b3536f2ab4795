"""What is remembered: blocks, the prefix index, checkpoints, and the manager that joins them. Pure."""
