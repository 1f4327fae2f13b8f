"""What communication costs: collectives, one training iteration, models, placements, and links that jobs share.

All of it is arithmetic: nothing here knows of policies or of the simulated world.
"""
