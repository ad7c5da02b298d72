"""The databases that a store can be in, each behind the `Database` protocol."""
