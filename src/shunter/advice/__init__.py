"""From a cluster's own history to advice: how far the simulator is to be believed, and what else could be done."""
