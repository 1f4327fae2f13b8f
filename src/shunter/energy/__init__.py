"""Nodes that sleep while no job needs them: the forecast of demand, the control, and what it saves."""
