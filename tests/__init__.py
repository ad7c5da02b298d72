"""The tests. They keep out of the user's own vault."""

import os

os.environ["ROOTGUARD_STORE"] = "memory:"
