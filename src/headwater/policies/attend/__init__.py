"""Which cached positions a generated token attends to (lossy but for `dense`; prompts are always read whole)."""
