"""Learning to find objects whose number is not known: presence is kept scarce, so that one sprite draws a whole object.

With more presence than objects, one object is drawn in parts by several sprites, which explains a picture no worse.
With a little less, whole objects win. So the objects of a picture are counted in training, as what explains more of it
than it costs; their presences then sum to half a unit less, and in one picture of four to one more, which is how
objects are found that no sprite shows yet.
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor

WARMUP = 200  # steps with few presences, in which sprites are learned
SHORT, SPARE, EVERY = 0.5, 1.0, 4


def totals_at_first(step: int, bound: int) -> float:
    """What presences sum to before anything can be counted: from one to about a third of the most that there can be."""
    return 1 + step / WARMUP * max(0.0, (bound + 1) / 3 - 1)


def counted(gains: Float[Tensor, "B rounds"], cost: float) -> Int[Tensor, "B 1"]:
    """How many sprites, found one after the other, explain more than they cost; at least one."""
    return (gains > cost).long().cumprod(dim=1).sum(dim=1, keepdim=True).clamp_min(1)


def scarce(count: Int[Tensor, "B 1"], bound: int) -> Float[Tensor, "B 1"]:
    """What presences sum to in training, where so many objects are counted."""
    spare = torch.arange(len(count), device=count.device).unsqueeze(1) % EVERY == 0
    return torch.where(spare, (count + SPARE).clamp(max=float(bound)), count - SHORT)


def emptiest(gains: Float[Tensor, " M"], cost: float, reach: float = 4.0, width: float = 1.5) -> float:
    """Where the fewest gains lie, within a factor of ``reach`` of the cost: between objects and what is left.

    Of several such places the highest: the least of objects is a bound, what is left has rare large values.
    """
    places = cost * torch.logspace(-1, 1, 81, base=reach, dtype=gains.dtype, device=gains.device)
    inside = (gains > places[:, None] / width) & (gains < places[:, None] * width)
    near = inside.sum(dim=1)
    return float(places[near == near.min()][-1])
