"""Neural Production Systems: equal to the plain form, equivariant, and trained like every other transition."""

import pytest
import torch
from plain_nps import plain_production

import howm
from howm.models.production import ProductionTransition
from howm.models.registry import build_model


@pytest.mark.parametrize("num_slots", [1, 2, 5])
def test_every_slot_follows_its_best_rule_and_its_best_neighbour(num_slots):
    torch.manual_seed(num_slots)
    system = ProductionTransition(slot_size=3, action_size=4, hidden=16, rules=5, key_size=8).eval().double()
    slots, actions = torch.randn(7, num_slots, 3).double(), torch.randn(7, num_slots, 4).double()
    with torch.no_grad():
        torch.testing.assert_close(system(slots, actions), plain_production(system, slots, actions))


def test_permuted_slots_change_in_permuted_ways():
    torch.manual_seed(0)
    system = ProductionTransition(3, 4, 16, rules=4).eval()
    slots, actions, order = torch.randn(6, 5, 3), torch.randn(6, 5, 4), torch.tensor([3, 0, 4, 1, 2])
    with torch.no_grad():
        torch.testing.assert_close(system(slots, actions)[:, order], system(slots[:, order], actions[:, order]))


def test_training_samples_and_every_part_gets_a_gradient():
    torch.manual_seed(0)
    system = ProductionTransition(3, 4, 16, rules=3).train()
    slots, actions = torch.randn(64, 5, 3), torch.randn(64, 5, 4)
    assert not torch.equal(system(slots, actions), system(slots, actions))
    system(slots, actions).square().sum().backward()
    for name, parameter in system.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.abs().sum() > 0, name


@pytest.mark.parametrize("method", ["nps", "aligned-nps"])
def test_the_methods_have_rules_that_can_be_set(method):
    config = howm.configure(method, "cpu", {"model": {"rules": 7, "hidden": 16}})
    model = build_model(method, howm.WorldSpec(6, 3), config.model, seed=0)
    assert isinstance(model.transition, ProductionTransition)
    assert len(model.transition.rule_embeddings) == 7
    with pytest.raises(howm.HowmError, match="rules must be 1 or more, got 0"):
        howm.configure(method, "cpu", {"model": {"rules": 0}})


def test_rules_take_no_structured_state():
    with pytest.raises(howm.HowmError, match="transition=nps has no messages and no structured state"):
        howm.configure("howm", "cpu", {"model": {"transition": "nps", "message_warmup": 5}})
