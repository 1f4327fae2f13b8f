"""What a PyTorch module computes and holds: the features of models of iteration times and peaks. Needs torch."""

from __future__ import annotations

from typing import Any, NamedTuple

from shunter import extras
from shunter.errors import ModelError


class ModuleCost(NamedTuple):
    """Operations of one pass over an example input, and weights."""

    flops: int  # a multiply-add counts as two
    params: int


def module_cost(module: Any, *inputs: Any, backward: bool = False) -> ModuleCost:
    """Run a module once on these inputs and count; with ``backward``, the gradients too.

    The module's weights and gradients stay as they are.
    """
    torch = extras.load("torch", "counting the operations of a module")
    if not isinstance(module, torch.nn.Module):
        raise ModelError(f"module_cost takes a torch.nn.Module, got {type(module).__name__}")
    counting = extras.load("torch.utils.flop_counter", "counting the operations of a module")
    held = [(weight, weight.grad) for weight in module.parameters()]
    trains = module.training
    module.eval()  # statistics of batches and dropout stay as they are
    try:
        with counting.FlopCounterMode(display=False) as counter, torch.set_grad_enabled(backward):
            found = module(*inputs)
            if backward:
                _sum_of(found).backward()
    finally:
        module.train(trains)
        for weight, gradient in held:
            weight.grad = gradient
    return ModuleCost(int(counter.get_total_flops()), sum(weight.numel() for weight, _ in held))


def _sum_of(outputs: Any) -> Any:
    """A number that depends on all outputs."""
    if isinstance(outputs, dict):
        return sum(_sum_of(each) for each in outputs.values())
    if isinstance(outputs, list | tuple):
        return sum(_sum_of(each) for each in outputs)
    return outputs.float().sum()
