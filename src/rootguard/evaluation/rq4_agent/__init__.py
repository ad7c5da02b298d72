"""Whether the figures survive an agent that parses, calls tools and replies (RQ4)."""
