"""What a model is: its facts, its page, its weights. Written against `kernels` operations only."""
