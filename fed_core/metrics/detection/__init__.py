"""Detection scores of nuScenes: the devkit matches and counts, this package feeds it and reads it (fedcka spec 7.3)."""
