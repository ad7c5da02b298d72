"""How long tests wait for something that must come: an answer, a process, a server, a thread.

It is no measure of speed. Nothing waits this long where nothing is wrong, and on a machine that is
busy with other things a second may take a minute; a test that hangs ends all the same, before
pytest's own limit of 300 seconds takes the whole worker down.
"""

PATIENCE = 240.0
"""Seconds."""
