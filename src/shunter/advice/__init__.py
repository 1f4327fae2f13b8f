"""From a cluster's own history to advice: how far the simulator can be trusted, and what could be done better."""
