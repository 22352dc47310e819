"""Models of one's own that can show little or nothing."""

import torch

import howm


class Flat(howm.WorldModel):
    """One vector for a picture: it draws nothing, has no masks and binds nothing."""

    def __init__(self, spec, config=None):
        super().__init__(spec)
        self.encoder = torch.nn.Linear(3 * spec.height * spec.width, 8)
        self.transition = torch.nn.Linear(8 + spec.actions, 8)

    def encode(self, pictures, privileged=None):
        return howm.SlotState(self.encoder(pictures.flatten(1).float() / 255)[:, None])

    def step(self, state, action):
        taken = torch.nn.functional.one_hot(action, self.spec.actions).float()
        return howm.SlotState(state.slots + self.transition(torch.cat([state.slots[:, 0], taken], dim=1))[:, None])

    def forward(self, batch):
        raise NotImplementedError


def flat(world, k):
    torch.manual_seed(0)
    return Flat(world.spec(k)).eval()
