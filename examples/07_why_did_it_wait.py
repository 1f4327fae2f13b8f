"""Keep why jobs waited; then see where all the waiting time went, and what held up the job that waited longest."""

import shunter
from shunter.report.explain import headline, moment, timeline
from shunter.report.waiting import waiting

run = shunter.simulate("synthetic:jobs=1500,gpus=64,load=1.0", "8x8", "fifo", decisions=True).kept

found = waiting(run)
for code, spent in zip(found.codes, found.per_job.sum(axis=1), strict=True):
    if spent:
        print(f"{code:12} {spent / found.per_job.sum():6.1%} of all waiting")

job = int(run.jobs["wait"].to_numpy().argmax())
print(headline(run, job))
for line in timeline(run, job, most=5):
    print(f"  {moment(line.begin)}  {line.text}")
