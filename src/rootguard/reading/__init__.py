"""One reader of what people write: names, numbers, units, and which belong together."""
