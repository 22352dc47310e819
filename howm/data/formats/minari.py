"""Datasets for Minari."""

import copy
import json
import os
import shutil
from math import prod
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np

from howm.data.dataset import Dataset
from howm.data.episodes import Episodes
from howm.data.formats.frames import _frames, _watched
from howm.errors import HowmError
from howm.files import atomic_folder
from howm.version import __version__
from howm.worlds.envs.registration import env_id
from howm.worlds.registry import describe_world
from howm.worlds.scenes import seeded_split


def export_minari(dataset: Dataset, part: str, path: str | os.PathLike[str]) -> None:
    """Write a part of a dataset as a Minari dataset: the new folder ``path``, whose name is the dataset's id.

    ``minari.load_dataset`` looks for it in MINARI_DATASETS_PATH. Pictures stay exact, which takes Minari much space.
    """
    try:
        import minari
        from minari.data_collector import EpisodeBuffer
        from minari.dataset.minari_dataset import parse_dataset_id
        from minari.dataset.minari_storage import MinariStorage
    except ImportError as error:
        raise HowmError(f"Minari cannot be loaded ({error}); pip install howm[minari]") from error
    folder, episodes = Path(path).absolute(), dataset.part(part)
    root = Path(os.environ.get("MINARI_DATASETS_PATH") or "~/.minari/datasets").expanduser().absolute()
    dataset_id = folder.relative_to(root).as_posix() if folder.is_relative_to(root) else folder.name
    try:
        parse_dataset_id(dataset_id)
    except (ValueError, TypeError):  # the latter where there is no version
        raise HowmError(f"{dataset_id!r} is not an id of Minari; give a folder with a name like shapes-v0") from None
    dtype = _frames(episodes, 0).dtype
    pixels = gymnasium.spaces.Box(0, 255 if dtype == np.uint8 else 1, episodes.picture_shape, dtype.type)
    about = {name: getattr(dataset, name) for name in ("n", "k", "seed", "moving")}
    about |= {"world": dataset.world_name, "part": part}
    about |= {name: json.dumps(value) for name, value in describe_world(dataset.world).items()} if dataset.world else {}
    about |= {"split_hash": dataset.split and dataset.split.hash, "version": __version__}
    with atomic_folder(folder) as whole:
        size = len(episodes) * (episodes.steps + 1) * prod(pixels.shape) * dtype.itemsize
        if size > shutil.disk_usage(whole).free:  # HDF5, in Minari's hands, would find out by a crash
            raise HowmError(f"{folder} would take {size / 1e9:.1f} GB, more than is free; choose another place")
        storage = MinariStorage.new(
            whole / "data", pixels, gymnasium.spaces.Discrete(dataset.spec.actions), _environment(dataset, part),
            jpeg_encoding=False,
        )  # fmt: skip
        storage.update_metadata({"dataset_id": dataset_id, "minari_version": minari.__version__, "howm": about})
        rows = _watched(range(len(episodes)), "write")
        storage.update_episodes(EpisodeBuffer(**_minari_fields(episodes, row)) for row in rows)


def _minari_fields(episodes: Episodes, row: int) -> dict[str, Any]:
    """One episode; its ``options`` make ``reset`` of a howm environment start it again."""
    steps = episodes.steps
    fields = {"observations": _frames(episodes, row), "actions": episodes.actions[row], "rewards": np.zeros(steps)}
    fields |= {"terminations": np.zeros(steps, dtype=bool), "truncations": np.arange(steps) == steps - 1}
    infos = {}
    if episodes.scene_ids is not None:
        infos["object_ids"] = np.tile(episodes.scene_ids[row], (steps + 1, 1))
    if episodes.states is None:
        return fields | {"infos": infos or None}
    world, _, states = episodes.state()
    positions = world.positions(infos["object_ids"], states[row])
    if positions is not None and world.state_at(positions[:1]) is not None:
        infos["positions"], place = positions, {"positions": positions[0]}
    else:
        infos["state"], place = states[row], {"state": states[row, 0]}
    return fields | {"infos": infos, "options": {"scene": infos["object_ids"][0], **place}}


def _environment(dataset: Dataset, part: str) -> gymnasium.envs.registration.EnvSpec | None:
    """The environment of these episodes, where one has this library; its split is "all" where the split is special."""
    world, name = dataset.world, dataset.world_name
    if world is None or env_id(name) not in gymnasium.registry:
        return None
    settings = world.settings()
    if world != type(world).from_settings(settings):  # for example, its library is in an order of its own
        return None
    spec = copy.deepcopy(gymnasium.spec(env_id(name)))
    spec.max_episode_steps = dataset.part(part).steps
    usual = dataset.split == seeded_split(dataset.n, dataset.k, dataset.seed)
    if "seed" in settings:
        settings["library_seed"] = settings.pop("seed")
    spec.kwargs |= {**settings, "k": dataset.k, "split_seed": dataset.seed}
    spec.kwargs |= {"split": ("eval" if part == "eval" else "train") if usual else "all"}
    return spec
