"""How objects at continuous positions move: message passing that sees where they lie relative to each other.

The state is structured: what an object is (its code) stays, and where it lies is predicted. This is exact where
actions move objects and never change how they look.
"""

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from howm.errors import require_int
from howm.models.product_cpu import Linear


class Steps(nn.Module):
    """Coordinates as smooth steps at many places along each axis: contact is decided by fractions of a pixel, which a
    plain linear layer is slow to resolve. The places and the widths of the steps are learned."""

    def __init__(self, reach: float, spacing: float, width: float) -> None:
        super().__init__()
        count = 2 * round(reach / spacing) + 1
        self.places = nn.Parameter(torch.linspace(-reach, reach, count).repeat(2, 1))
        self.slopes = nn.Parameter(torch.full((2, count), 1 / width))
        self.size = 2 * count + 2

    def forward(self, x: Float[Tensor, "*rows 2"]) -> Float[Tensor, "*rows features"]:
        steps = torch.tanh((x.unsqueeze(-1) - self.places) * self.slopes)
        return torch.cat([x, steps.flatten(-2)], dim=-1)


class RelationTransition(nn.Module):
    """The change of every object's position, from all positions, codes and bound actions.

    A message to object i from j sees their relative position, both codes, both bound actions and, from the second round
    on, what the last round made of both. Of its messages an object keeps the *maximum*: one obstacle is enough. In
    ``rounds`` rounds news passes along chains of as many objects. Objects may stand in any order (Σ_K-equivariant),
    and slots without an object neither send nor move.
    """

    def __init__(
        self,
        code_size: int,
        action_size: int,
        hidden: int,
        rounds: int = 1,
        look: int = 4,
        reach: float = 6.0,
        extent: float = 10.0,
        spacing: float = 0.4,
        width: float = 0.2,
        cutoff: float = 0.0,
    ) -> None:
        """Lengths are in the units of positions: messages resolve relative positions up to ``reach``, nodes absolute
        ones up to ``extent``, and messages fade over the last unit to ``cutoff``, beyond which there are none (0: any
        distance). ``look`` is how many numbers of a linear map of the code the dynamics may see."""
        super().__init__()
        require_int("rounds", rounds, 1)
        self.rounds, self.cutoff = rounds, cutoff
        self.look = Linear(code_size, look)
        self.reference = Linear(code_size, 2)  # from where an extractor sees an object to what collides
        nn.init.zeros_(self.reference.weight)
        nn.init.zeros_(self.reference.bias)
        self.relative = Steps(reach, spacing, width)
        self.absolute = Steps(extent, spacing, width)
        own = look + action_size
        self.from_relative = Linear(self.relative.size, hidden)
        self.from_receiver = Linear(own, hidden, bias=False)
        self.from_sender = Linear(own, hidden, bias=False)
        self.edge = nn.Sequential(nn.ReLU(), nn.LayerNorm(hidden), Linear(hidden, hidden), nn.ReLU())
        self.node = nn.Sequential(
            Linear(self.absolute.size + own + hidden, hidden),
            nn.ReLU(),
            nn.LayerNorm(hidden),
            Linear(hidden, hidden),
            nn.ReLU(),
        )
        if rounds > 1:
            self.again_receiver = Linear(hidden, hidden, bias=False)
            self.again_sender = Linear(hidden, hidden, bias=False)
            self.again_node = Linear(hidden, hidden, bias=False)
        self.change = Linear(hidden, 2)

    def forward(
        self,
        code: Float[Tensor, "B K code"],
        position: Float[Tensor, "B K 2"],
        actions: Float[Tensor, "B K A"],
        present: Bool[Tensor, "B K"],
    ) -> Float[Tensor, "B K 2"]:
        own = torch.cat([self.look(code), actions], dim=2)
        position = position + self.reference(code)
        place = torch.cat([self.absolute(position), own], dim=2)
        batch, count = present.shape
        relative = position[:, None] - position[:, :, None]  # [i, j]: from the receiver i to the sender j
        heard = present[:, None, :] & ~torch.eye(count, dtype=torch.bool, device=present.device)
        if self.cutoff:
            heard = heard & (relative.detach().abs().amax(dim=3) < self.cutoff)
        frame, to, by = heard.nonzero(as_tuple=True)  # only these edges are computed
        relative = relative[frame, to, by]
        between = self.from_relative(self.relative(relative))
        receiver, sender = self.from_receiver(own), self.from_sender(own)
        memory = None
        for _ in range(self.rounds):
            if memory is not None:
                receiver = self.from_receiver(own) + self.again_receiver(memory)
                sender = self.from_sender(own) + self.again_sender(memory)
            messages = self.edge(between + receiver[frame, to] + sender[frame, by])
            if self.cutoff:
                messages = messages * (self.cutoff - relative.abs().amax(dim=1, keepdim=True)).clamp(max=1.0)
            everything = messages.new_zeros(batch, count, count, messages.shape[1])
            strongest = everything.index_put((frame, to, by), messages).amax(dim=2)
            first, *rest = self.node
            nodes = first(torch.cat([place, strongest], dim=2))
            if memory is not None:
                nodes = nodes + self.again_node(memory)
            for layer in rest:
                nodes = layer(nodes)
            memory = nodes
        change: Tensor = self.change(memory)
        return change * present.unsqueeze(2)
