"""What the world calls things: names, numbers and units. Public knowledge, no values."""
