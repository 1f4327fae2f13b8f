"""Simulate one policy on a synthetic trace, and look at what came out."""

import shunter

result = shunter.simulate("synthetic:jobs=500,gpus=64,load=1.2", "8x8", "sjf:backfill=easy")

summary = result.summary
print(f"{summary['policy']}: {summary['finished']} of {summary['jobs']} jobs finished")
print(f"mean wait {summary['wait_s']['mean']:,.0f} s, mean JCT {summary['jct_s']['mean']:,.0f} s")
print(f"{summary['utilization']:.0%} of the GPUs in use, digest {result.digest}")
print(result.jobs.sort("wait", descending=True).select("job_id", "gpus", "wait", "run", "nodes").head(3))
