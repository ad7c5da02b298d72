"""How wrong the target gets (RQ1)."""
