"""Which cached positions a generated token attends to (lossy but for `dense`); some residents read prompts in part, the others whole."""
