"""Which cached block leaves first."""
