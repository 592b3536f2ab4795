"""HTTP: one file per endpoint; wire types in `schema/`."""
