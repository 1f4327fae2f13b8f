"""Nodes that sleep while nobody needs them: the forecast of demand, the control, and what it saves."""
