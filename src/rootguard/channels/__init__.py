"""How answers reach a service: free text, the gateway, MCP. Refusals are in fixed words."""
