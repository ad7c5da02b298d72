"""The tables, as the ordered steps that made them, and what was in them before."""
