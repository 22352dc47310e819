"""The splits of the runs, and what is certified of them."""

from contextlib import suppress
from math import comb
from pathlib import Path
from typing import cast, get_args

from howm.data.storage import load_dataset
from howm.errors import HowmError
from howm.files import file_hash
from howm.report.results_folder import Results, ended
from howm.report.table import Cell, Column, Table
from howm.runs.result import RunResult
from howm.worlds.scenes import SceneSplit, seeded_split
from howm.worlds.sizes import read_sizes
from howm.worlds.splits import SplitKind, make_split

# The splits, and where numbers come from.


def certificate_table(folder: Path, results: Results) -> Table:
    """What the split of each world and seed was: read from its data, or drawn again from the seed; else unknown."""
    columns = (
        *(Column("world"), Column("N"), Column("K"), Column("split"), Column("data seed"), Column("scenes in all")),
        *(Column("training", "scenes"), Column("evaluation", "scenes"), Column("in both", "scenes")),
        *(Column("training", "uneven by"), Column("evaluation", "uneven by")),
        *(Column("violations"), Column("hash of the split", code=True), Column("from")),
    )
    rows: dict[tuple[Cell, ...], None] = {}
    everything = (*results.grid, *results.variants, *results.others)
    order = list(dict.fromkeys(run.world for run in everything))
    alike = {
        (order.index(run.world), run.n, run.k, run.scene_size, run.split, _data_seed(run) or 0, str(run.data),
         run.training_scenes or 0, run.scenes): run
        for run in ended(everything)
    }  # fmt: skip
    for _, run in sorted(alike.items(), key=lambda pair: pair[0]):
        split, source = _split(folder, run)
        known: tuple[Cell, ...]
        head = (run.world_title, run.n, run.scene_size, run.split, _data_seed(run), _combinations(run))
        if split is None:
            known = (run.training_scenes, run.scenes, None, None, None, None, _recorded(run))
        else:
            proof = split.certificate()
            shared = len({*split.train.scenes} & {*split.eval.scenes})
            spread = proof["frequency_spread"]
            known = (proof["train_scenes"], proof["eval_scenes"], shared, spread["train"], spread["eval"],
                     "; ".join(proof["violations"]) or "none", proof["hash"])  # fmt: skip
        rows[(*head, *known, source)] = None
    note = (
        "Without violations, every object is in a training scene; ‘uneven by’ is the difference between the most and "
        "the least frequent object. At N = K the one scene is in both sets. ‘Its seed’: the data is not here, so the "
        "split that belongs to the seed was drawn again, and is the one that the result names. ‘Its seed, unchecked’: "
        "drawn again likewise, but the result is older and names no split; the numbers of scenes agree. ‘Unknown’: "
        "neither is so."
    )
    return Table("Training and evaluation scenes", note, columns, tuple(rows), 5)


MOST = 10_000  # objects or scenes: a split of more is not drawn again


def _combinations(run: RunResult) -> str:
    if run.n > 1_000:
        return f"C({run.n:,}, {run.k:,})"
    smallest = int(run.scene_size.partition("-")[0].partition(" ")[0])
    return f"{sum(comb(run.n, size) for size in range(smallest, run.k + 1)):,}"


def _data_seed(run: RunResult) -> int | None:
    return None if run.data is None else run.data.seed


def _recorded(run: RunResult) -> str | None:
    """The hash of the split, which older results do not have."""
    return None if run.data is None else run.data.split


def _split(folder: Path, run: RunResult) -> tuple[SceneSplit | None, str]:
    """The split that a result was measured with, and where it is from."""
    n, k, seed, scenes = run.n, run.k, _data_seed(run), run.training_scenes
    path = folder / "data" / f"{run.setting}-seed{seed}.h5"
    if run.data is not None and path.is_file() and file_hash(path) == run.data.hash:
        with suppress(HowmError):  # whose world is not known here
            return load_dataset(path).split, "its data"
    if seed is None or max(n, scenes or 0) > MOST:
        return None, "unknown"
    if not run.is_plain:
        return _other_split(run, seed)
    split = seeded_split(n, k, seed, **({"train_scenes": scenes} if scenes and n > k else {}))
    if _recorded(run) is not None:
        return (split, "its seed") if split.hash == _recorded(run) else (None, "unknown")
    # Of consecutive scenes there are N, so that more of them were drawn as they are by default.
    drawn = n == k or run.scenes > n
    agrees = run.scenes == len(split.eval) and scenes in (None, len(split.train))
    return (split, "its seed, unchecked") if drawn and agrees else (None, "unknown")


def _other_split(run: RunResult, seed: int) -> tuple[SceneSplit | None, str]:
    """One with a further rule or several sizes, by its default numbers of scenes."""
    training, _, evaluation = run.scene_size.partition(" to ")
    if run.split in get_args(SplitKind):
        with suppress(HowmError):
            larger = read_sizes(evaluation) if evaluation else None
            split = make_split(cast(SplitKind, run.split), run.n, read_sizes(training), seed, larger)
            if split.hash == _recorded(run):
                return split, "its seed"
    return None, "unknown"
