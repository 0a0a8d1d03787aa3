"""What the report of a study of bird's eye maps shows (feddwa spec 9, 10, 14)."""
