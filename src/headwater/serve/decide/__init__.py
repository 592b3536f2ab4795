"""Decision endpoints: one file per dialect, all on `headwater.decisions`."""
