"""How answers cross the boundary: text, the gateway, and what they refuse in fixed words."""
