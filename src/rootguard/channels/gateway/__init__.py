"""The gateway before a chat API."""
