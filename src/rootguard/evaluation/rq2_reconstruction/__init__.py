"""How near an adversary gets to the roots by asking (RQ2)."""
