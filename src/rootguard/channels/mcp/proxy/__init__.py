"""A proxy before other MCP servers: private arguments are replaced on the way in."""
