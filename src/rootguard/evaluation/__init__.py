"""Experiments: what RootGuard is compared with, and how."""
