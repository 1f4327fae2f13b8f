"""Settings of a policy, chosen on a part of the past and judged on a later one."""
