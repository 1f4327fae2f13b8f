"""A training that can be stopped and continued with another number of workers, and ends with the same loss.

    srun --ntasks=4 python resizable_training.py work/      # or torchrun --nproc-per-node=4 ...

The convention for jobs that may be resized: the job gets SIGUSR1, writes a checkpoint, and exits with code 75; it
queues itself again, gets another number of GPUs, and finds its checkpoint.  ``resizable.sh`` is the batch script.

A batch is always divided into the same parts, whatever the number of workers, and their gradients are added in the
order of the parts.  So every number of workers takes the same steps, to the last bit.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

PARTS = 8  # of a batch; workers share them
BATCH, STEPS = 64, 60
AGAIN = 75  # exit code: queue me again

stopped = False


def stop(*_: Any) -> None:
    """The scheduler asks for a checkpoint."""
    global stopped  # noqa: PLW0603 a signal handler has nothing else
    stopped = True


def join(folder: Path) -> tuple[int, int]:
    """This worker's number and how many there are, as Slurm or torchrun say."""
    rank = int(os.environ.get("SLURM_PROCID", os.environ.get("RANK", "0")))
    size = int(os.environ.get("SLURM_NTASKS", os.environ.get("WORLD_SIZE", "1")))
    if size > 1:
        job = f"{os.environ.get('SLURM_JOB_ID', os.getppid())}.{os.environ.get('SLURM_RESTART_COUNT', '0')}"
        dist.init_process_group("gloo", init_method=f"file://{folder.resolve()}/meet.{job}", rank=rank, world_size=size)
    return rank, size


def part_gradients(model: torch.nn.Module, step: int, part: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The gradient of one part of a batch as a vector, and its loss."""
    draw = torch.Generator().manual_seed(1000 * step + part)
    inputs = torch.randn(BATCH // PARTS, 16, generator=draw, dtype=torch.float64)
    wanted = torch.sin(inputs.sum(1, keepdim=True))
    loss = torch.nn.functional.mse_loss(model(inputs), wanted)
    model.zero_grad()
    loss.backward()
    return torch.cat([weight.grad.flatten() for weight in model.parameters()]), loss.detach()


def batch_gradients(model: torch.nn.Module, step: int, rank: int, size: int) -> tuple[torch.Tensor, float]:
    """The mean gradient and loss of a batch; each worker computes some parts, and all add them in the same order."""
    count = sum(weight.numel() for weight in model.parameters())
    table = torch.zeros(PARTS, count + 1, dtype=torch.float64)
    for part in range(rank, PARTS, size):
        gradient, loss = part_gradients(model, step, part)
        table[part] = torch.cat((gradient, loss.reshape(1)))
    if size > 1:
        dist.all_reduce(table)  # the other workers have zeros there: adding them changes nothing
    mean = table.sum(0) / PARTS
    return mean[:-1], float(mean[-1])


def apply(model: torch.nn.Module, gradient: torch.Tensor) -> None:
    """Put a vector where the weights' gradients are."""
    at = 0
    for weight in model.parameters():
        weight.grad = gradient[at : at + weight.numel()].reshape(weight.shape).clone()
        at += weight.numel()


def wants_stop(size: int) -> bool:
    """Whether any worker was asked to stop: all of them stop after the same step."""
    flag = torch.tensor([float(stopped)])
    if size > 1:
        dist.all_reduce(flag)
    return bool(flag)


def save(path: Path, state: dict[str, Any]) -> None:
    """Write a checkpoint whole or not at all."""
    torch.save(state, path.with_suffix(".part"))
    path.with_suffix(".part").replace(path)


def main() -> int:
    """Train from the checkpoint, if there is one, to the last step, or until the signal."""
    options = argparse.ArgumentParser()
    options.add_argument("folder", type=Path, help="where the checkpoint is")
    options.add_argument("--stop-at", type=int, default=-1, help="send the signal to myself after this step, to try it")
    options.add_argument("--step-s", type=float, default=0.0, help="sleep after each step of a first run, to try it")
    given = options.parse_args()
    signal.signal(signal.SIGUSR1, stop)
    torch.manual_seed(0)
    torch.set_num_threads(1)
    given.folder.mkdir(parents=True, exist_ok=True)
    rank, size = join(given.folder)
    model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.Tanh(), torch.nn.Linear(32, 1)).double()
    optimiser = torch.optim.Adam(model.parameters(), lr=0.01)
    checkpoint, step, loss = given.folder / "checkpoint.pt", 0, float("nan")
    first = not checkpoint.exists()
    if not first:
        state = torch.load(checkpoint, weights_only=True)
        model.load_state_dict(state["model"])
        optimiser.load_state_dict(state["optimiser"])
        step = state["step"]
    while step < STEPS:
        gradient, loss = batch_gradients(model, step, rank, size)
        apply(model, gradient)
        optimiser.step()
        step += 1
        time.sleep(given.step_s if first else 0.0)
        if step == given.stop_at:
            os.kill(os.getpid(), signal.SIGUSR1)
        if wants_stop(size):
            break
    if rank == 0:
        save(checkpoint, {"model": model.state_dict(), "optimiser": optimiser.state_dict(), "step": step})
        print(f"{size} workers, step {step}, loss {loss:.17g}")
    if size > 1:
        dist.barrier()  # nobody leaves before the checkpoint is there
    return 0 if step == STEPS else AGAIN


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    os._exit(code)  # at once: while libraries clean up, a thread of gloo that still runs may abort the process
