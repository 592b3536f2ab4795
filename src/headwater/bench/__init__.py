"""headwater bench: ratios against named peers or the roofline, in one run; every figure with its environment."""
