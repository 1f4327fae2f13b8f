"""What if the policy were changed now?  Copy a running simulation, and compare the two futures."""

import copy

from shunter import Simulator, clusters, policy
from shunter.traces.synthetic import synthetic
from shunter.world import WAITED

HOUR = 3_600_000  # times are milliseconds

trace = synthetic(jobs=500, gpus=64, load=1.2)
simulator = Simulator(trace, clusters.load("8x8"))
fifo, saf = policy("fifo"), policy("saf:backfill=easy")

memory = simulator.run(fifo, until=int(trace.submit[0]) + 24 * HOUR)
other = simulator.fork()

simulator.run(fifo, memory=copy.deepcopy(memory))  # go on as before
other.run(saf, memory=saf.start(other.cluster, memory))  # another policy takes over what the first one knew

for name, future in (("as before", simulator), ("saf from the second day on", other)):
    print(f"{name:28} mean wait {future.world.jobs[WAITED].mean() / 1000:8,.0f} s, digest {future.digest}")
