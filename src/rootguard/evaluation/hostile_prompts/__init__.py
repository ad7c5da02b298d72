"""What leaves when a service says hostile things to the agent (RQ4)."""
