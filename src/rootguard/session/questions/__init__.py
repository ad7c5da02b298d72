"""Questions in words, answered in words from released values."""
