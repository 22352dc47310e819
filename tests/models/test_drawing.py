"""Painting in place, blending in patches and derivatives by hand equal their slow twins."""

import pytest
import torch
from torch import Tensor

from howm.models.extractors.placement import Patches, displaced, place
from howm.models.extractors.pursuit import refine
from tests.oracles import plain_drawing

SIZE = (30, 26)


def crowd(seed: int = 0) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Sprites in two pictures, many over each other and over the border."""
    generator = torch.Generator().manual_seed(seed)
    rgba = torch.rand(2, 6, 4, 7, 7, generator=generator)
    rgba[:, :, :3] *= rgba[:, :, 3:]
    centre = torch.rand(2, 6, 2, generator=generator) * (torch.tensor(SIZE) + 4) - 2
    return rgba, centre, torch.randn(2, 6, generator=generator), torch.rand(2, 3, *SIZE, generator=generator)


@pytest.mark.parametrize("way", ["painted", "blended"])
def test_pictures_and_gradients_equal_those_of_the_slow_twin(way: str) -> None:
    rgba, centre, depth, background = crowd()
    upstream = torch.randn(2, 3, *SIZE, generator=torch.Generator().manual_seed(1))
    found = []
    for draw in (getattr(Patches, way), getattr(plain_drawing, way)):
        leaves = [x.clone().requires_grad_() for x in (rgba, centre, background, depth)]
        picture = draw(place(leaves[0], leaves[1], SIZE), leaves[2], leaves[3])
        (picture * upstream).sum().backward()
        found.append([picture.detach(), *(leaf.grad for leaf in leaves[: 3 + (way == "blended")])])
    for fast, slow in zip(*found, strict=True):
        torch.testing.assert_close(fast, slow, atol=2e-5, rtol=1e-5)


def test_layers_say_what_lies_behind_and_before_each_sprite() -> None:
    rgba, centre, depth, background = crowd(2)
    patches = place(rgba, centre, SIZE)
    picture, behind = patches.layered(background, depth)
    for j in range(6):  # light of what is behind, through what is before: without the sprite, and with it
        values = patches.values.clone()
        values[:, j] = 0
        without = Patches(values, patches.index, patches.margin, SIZE).painted(background, depth)
        change = patches.clear(depth) * (patches.values[:, :, :3] - patches.values[:, :, 3:] * behind)
        inside = patches.within(torch.ones_like(background))
        expected = patches.within(picture - without)[:, j]
        torch.testing.assert_close((change * inside)[:, j], expected, atol=2e-5, rtol=1e-5)


def test_derivatives_of_placed_sprites_are_those_of_autograd() -> None:
    rgba, centre, _, _ = crowd(3)
    weight = torch.randn(2, 6, 4, 100, generator=torch.Generator().manual_seed(4))
    leaf = centre.clone().requires_grad_()
    (place(rgba, leaf, SIZE).values * weight).sum().backward()
    found = (displaced(rgba, centre) * weight.unsqueeze(2)).sum(dim=(3, 4))
    torch.testing.assert_close(found, leaf.grad, atol=2e-5, rtol=1e-5)


@pytest.mark.parametrize("with_depth", [False, True])
def test_refinement_equals_its_slow_twin(with_depth: bool) -> None:
    rgba, centre, depth, background = crowd(5)
    depth = depth if with_depth else None
    patches = place(rgba, centre, SIZE)
    pictures = patches.added(background) if depth is None else patches.painted(background, depth)
    start = centre + 0.4 * torch.randn(centre.shape, generator=torch.Generator().manual_seed(6))
    found = refine(pictures, background, rgba, start, depth, steps=3)
    expected = plain_drawing.refined(pictures, background, rgba, start, depth, steps=3)
    torch.testing.assert_close(found, expected, atol=1e-4, rtol=0)
    assert (found - start).abs().max() > 0.1
