"""How many iterations a training still needs, from its losses so far."""
