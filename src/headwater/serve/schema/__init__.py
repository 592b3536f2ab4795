"""Wire types: what clients send, field by field."""
