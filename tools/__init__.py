"""Commands for those who work on RootGuard; nothing here is in the wheel."""
