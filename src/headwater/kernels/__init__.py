"""Numbers: recorded programs, packed weights, the numpy reference and the native library. Imports nothing of ours but itself."""
