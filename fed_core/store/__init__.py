"""State that survives: the journal of a run and its content-addressed blobs."""
