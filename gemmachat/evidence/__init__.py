"""The checks of a self-test: each holds a loaded pair's answers against a promise."""
