"""What an owner should choose. May use seeds, never a release."""
