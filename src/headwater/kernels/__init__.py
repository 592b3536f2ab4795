"""Operations on arrays: the numpy definition of each, its native twin, and the table that says which one runs and why."""
