"""An autopilot: chooses a policy and its settings by what they would have done with the last weeks, within limits."""
