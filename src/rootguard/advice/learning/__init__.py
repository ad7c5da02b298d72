"""Learned targets: an approximation of a formula that nobody tells."""
