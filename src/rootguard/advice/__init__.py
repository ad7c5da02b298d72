"""What helps an owner to choose: synthetic people, what an epsilon buys, learned targets.

It may use seeded randomness, because nothing here is ever released.
"""
