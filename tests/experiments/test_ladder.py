"""Every method trains and is evaluated in every world: a number, not a crash."""

import pytest

from howm import METHODS, Amounts, configure, evaluate_run, make_dataset
from howm.config import parse_settings
from howm.data.storage import save_dataset
from howm.files import file_hash
from howm.training.run import train_run
from howm.worlds.registry import WORLDS

TINY = ("steps=3", "batch=8", "warmup=0", "check_every=2", "log_every=2")


@pytest.mark.slow
@pytest.mark.parametrize("world", WORLDS)
def test_every_method_has_a_number_in_every_world(world, tmp_path):
    data = make_dataset(world, 10, amounts=Amounts(500, 4, 30, 3))
    path = tmp_path / "data.h5"
    save_dataset(data, path)
    for method in METHODS:
        groups = ("train", "represent") if METHODS[method].represents else ("train",)
        settings = [f"{group}.{setting}" for group in groups for setting in TINY]
        config = configure(method, "cpu", parse_settings(settings), spec=data.spec)
        train_run(config, data, tmp_path / method, data_path=str(path), data_hash=file_hash(path))
        result = evaluate_run(tmp_path / method, steps=(1, 3))
        assert 0 < result.scores["unseen"]["hard"]["3"].mrr <= 100
        assert result.controls["oracle"]["hard"]["3"].mrr == 100
        assert result.split == ("linked" if world == "changing" else "scenes")
        assert result.scene_size == ("3-7" if world == "grand" else "5")
