"""The Model Context Protocol: a server of guarded values, and a proxy before other servers."""
