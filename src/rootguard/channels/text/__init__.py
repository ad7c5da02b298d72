"""Guarding free text: private numbers become released values, identifiers become tokens."""

from rootguard.channels.text.channel import TextChannel

__all__ = ["TextChannel"]
