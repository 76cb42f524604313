"""Data sources: each module reads one kind of source and returns the same `Task`."""
