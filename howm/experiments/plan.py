"""What a sweep runs: a grid of methods × worlds × splits × library sizes × seeds, and how much work each run is."""

import re
from dataclasses import dataclass, replace
from functools import cache
from itertools import product
from typing import Any, Literal

from howm.config import parse_settings, require_name
from howm.errors import HowmError, short, shorten
from howm.models.extractors.registry import EXTRACTORS
from howm.models.registry import METHODS, find_method
from howm.runs.config import RunConfig, extractor_kind, has_setting, read_config
from howm.runs.result import file_name, setting_name
from howm.worlds.registry import WORLDS, make_world
from howm.worlds.sizes import read_sizes, write_sizes
from howm.worlds.spec import WorldSpec
from howm.worlds.splits import SplitKind, default_split, make_split
from howm.worlds.world import World

GROUPS = ("model", "represent", "train")
# The methods of the paper's tables, and ours beside them, in the order of our own tables.
PAPER_METHODS = ("cswm-n", "cswm-k", "cswm-k-ca", "cwm-n", "cswm-slots", "monet-bm", "howm-paper", "howm")

MAX_RUNS = 10_000
MAX_OBJECTS = 100_000  # in the library of a sweep

BudgetName = Literal["quick", "cpu", "paper"]


@dataclass(frozen=True)
class Budget:
    """How much work a run is: a preset, the share of its training steps, and the references of its evaluation."""

    preset: str
    share: float
    eval_episodes: int


BUDGETS: dict[str, Budget] = {
    "quick": Budget("cpu", 0.25, 1_000),
    "cpu": Budget("cpu", 1.0, 10_000),
    "paper": Budget("paper", 1.0, 10_000),
}


def paper_grid(budget: str) -> dict[str, Any]:
    """The grid of the paper's tables, with two options of its baselines; in a hurry less of everything."""
    if budget == "quick":
        return {"n": [5, 10], "large": [], "seeds": [0]}
    background = {"name": "monet-bm-background", "method": "monet-bm", "settings": ["model.monet.background_slot=true"]}
    matched = {"name": "cswm-slots-matched", "method": "cswm-slots", "settings": ["model.matching=true"]}
    return {"variants": [background, matched]}


@dataclass(frozen=True)
class Variant:
    """A method with some of its keys changed, under a name of its own."""

    name: str
    method: str
    settings: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.name != self.method and not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", self.name):
            raise HowmError(f"name={short(self.name)} cannot be part of a file's name; use letters, digits and hyphens")
        require_name("method", self.method)
        if ":" not in self.method:
            find_method(self.method)


@dataclass(frozen=True, order=True)
class PlannedRun:
    """A run of a sweep; ``method`` is the name of a method or of a variant."""

    world: str
    n: int
    sizes: int | str  # of scenes, as a result has them
    method: str
    seed: int
    split: SplitKind = "scenes"

    @property
    def setting(self) -> str:
        return setting_name(self.world, self.n, self.sizes, self.split)

    @property
    def k(self) -> int:
        """The size of the largest scene."""
        return max(map(int, re.findall(r"\d+", str(self.sizes))))

    @property
    def name(self) -> str:
        return f"{self.setting}/{file_name(self.method)}-seed{self.seed}"


# What runs that two grids have in common must be made with in both.
_SHARED = ("budget", "steps_share", "world_settings", "train_scenes", "steps", "eval_episodes", "queries", "settings")


@dataclass(frozen=True)
class SweepConfig:
    """The grid. ``settings`` override keys of every method that has them; ``large`` are sizes for Shapes alone.

    ``variants`` are run beside the methods. ``k`` (a size of scenes, or sizes such as 3-7), ``splits``, ``eval_k``,
    ``train_scenes`` and ``world_settings``, such as grid=8x8, are those of `howm data make`; a world has its own k and
    split where none is given. ``share`` is that of the preset's training steps, by default the budget's.
    """

    methods: tuple[str, ...] = PAPER_METHODS
    variants: tuple[Variant, ...] = ()
    envs: tuple[str, ...] = ("shapes", "rush_hour")
    n: tuple[int, ...] = (5, 10, 20)
    large: tuple[int, ...] = (30,)
    k: int | str | None = None
    splits: tuple[SplitKind, ...] = ()
    eval_k: int | str | None = None
    world_settings: tuple[str, ...] = ()
    train_scenes: int | None = None
    seeds: tuple[int, ...] = (0, 1, 2)
    budget: BudgetName = "cpu"
    share: float | None = None
    steps: tuple[int, ...] = (1, 5, 10)
    episodes: int | None = None  # of evaluation; the budget's, if not given
    queries: int | None = None  # that are ranked; all episodes, if not given
    settings: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        lists = ("methods", "variants", "envs", "n", "large", "splits", "seeds", "steps", "settings", "world_settings")
        sizes = {name: len(getattr(self, name)) for name in lists}
        runs = (sizes["methods"] + sizes["variants"]) * sizes["envs"] * (sizes["n"] + sizes["large"]) * sizes["seeds"]
        runs *= max(1, sizes["splits"])
        if max(runs, *sizes.values()) > MAX_RUNS:
            raise HowmError(f"a sweep has {MAX_RUNS:,} runs at most, and this one {runs:,}; divide it")
        for name in ("envs", "seeds", "steps"):
            if not getattr(self, name):
                raise HowmError(f"a sweep needs at least one value of {name}")
        for name in ("envs", "n", "splits", "seeds"):
            values = getattr(self, name)
            twice = [value for value in values if values.count(value) > 1]
            if twice:
                raise HowmError(f"{name} has {shorten(twice[0], 60)} twice; give each once")
        if not self.methods and not self.variants:
            raise HowmError("a sweep needs at least one of methods or variants")
        if not self.n and not self.large:
            raise HowmError("a sweep needs at least one value of n")
        for name in (*self.methods, *self.envs):  # paths are built from them
            require_name("name", name)
        for method in self.methods:
            if ":" not in method:
                find_method(method)
        names = [*self.methods, *(variant.name for variant in self.variants)]
        for name in names:
            if names.count(name) > 1:
                raise HowmError(
                    f"{shorten(name, 60)} appears twice among the methods and variants; give each a name of its own"
                )
        for env in self.envs:
            if env not in WORLDS and ":" not in env:
                raise HowmError(f"unknown world {short(env)}; choose one of {', '.join(WORLDS)}")
        for n in (*self.n, *self.large):
            if not 1 <= n <= MAX_OBJECTS:
                raise HowmError(f"n must be in 1-{MAX_OBJECTS}, got {n}")
        larger = "larger-k" in self.splits
        if larger != (self.eval_k is not None) or (larger and len(self.splits) > 1):
            raise HowmError("eval_k, sizes of evaluation scenes, goes with the split larger-k alone; give both or none")
        if self.share is not None and not 0 < self.share <= 1:
            raise HowmError(f"share, of the training steps of a preset, must be in (0, 1], got {self.share}")
        if min(self.seeds) < 0:
            raise HowmError(f"seed must be a non-negative integer, got {min(self.seeds)}")
        if self.episodes is not None and self.episodes < 2:
            raise HowmError(f"episodes must be 2 or more, got {self.episodes}")
        if self.queries is not None and self.queries < 2:
            raise HowmError(f"queries must be 2 or more, got {self.queries}")
        if not 1 <= min(self.steps) <= max(self.steps) <= 10**6:
            raise HowmError(f"steps must be in 1-1,000,000, got {short(list(self.steps))}")
        for setting in self.settings:
            if setting.partition(".")[0] not in GROUPS:
                groups = ", ".join(GROUPS)
                raise HowmError(f"setting {short(setting)} belongs to none of {groups}; give, say, train.steps=1000")
        if self.k is not None:
            self._refuse_sizes(read_sizes(self.k))
        if not any(self.typed.values()):  # else what is typed must be allowed first
            self.check()

    def check(self) -> None:
        """Refuse names that only a file gives, and keys and values that the worlds and methods do not take."""
        for env in self.envs:
            WORLDS[env]  # which imports nothing that a person has not typed
            training, evaluation = self._sizes(env)
            self._refuse_sizes(training if evaluation is None else evaluation)
            for size in (training, evaluation or training):
                _world(env, max(self.n + self.large), self.world_settings).check_scene_size(size[-1])
            for n, split in product({*self.n, *self.large}, self._splits(env)):
                if (self.train_scenes is not None and n > training[-1]) or split not in ("scenes", "linked"):
                    make_split(split, n, training, 0, evaluation, train_scenes=self.train_scenes)  # refuses
        for row in self.rows.values():
            find_method(row.method)
        for kind in self.typed["extractors"]:
            EXTRACTORS[kind]
        for setting in self.settings:
            if not any(has_setting(METHODS[name], setting) for name in METHODS):
                raise HowmError(f"setting {short(setting)} names a key that no method has; leave it out")
        for run in self.runs():
            self.run_config(run)

    @property
    def typed(self) -> dict[str, tuple[str, ...]]:
        """All names of the form package.module:Name, which a person has to type: no file may make howm import them."""
        settings = [self.settings, *(variant.settings for variant in self.variants)]
        kinds = filter(None, (extractor_kind(parse_settings(some)) for some in settings))
        names = {"methods": [row.method for row in self.rows.values()], "worlds": self.envs, "extractors": kinds}
        return {noun: tuple(name for name in dict.fromkeys(some) if ":" in name) for noun, some in names.items()}

    @property
    def eval_episodes(self) -> int:
        return self.episodes or BUDGETS[self.budget].eval_episodes

    @property
    def steps_share(self) -> float:
        return self.share or BUDGETS[self.budget].share

    @property
    def rows(self) -> dict[str, Variant]:
        """All methods and variants by name."""
        return {row.name: row for row in (*(Variant(name, name) for name in self.methods), *self.variants)}

    def runs(self) -> list[PlannedRun]:
        """Seed by seed and small libraries first, so that a sweep that is cut short has some of everything."""
        return [
            PlannedRun(env, n, self._sizes_text(env), name, seed, split)
            for seed in self.seeds
            for n in sorted({*self.n, *self.large})
            for env in self.envs
            for split in self._splits(env)
            for name in self.rows
            if n in self.n or env == "shapes"
        ]

    def _sizes(self, env: str) -> tuple[range, range | None]:
        """Sizes of scenes, and of those of evaluation where they are others."""
        asked = self._own(env)[0] if self.k is None else self.k
        return read_sizes(asked), None if self.eval_k is None else read_sizes(self.eval_k)

    def _sizes_text(self, env: str) -> int | str:
        text = write_sizes(*self._sizes(env))
        return int(text) if text.isdecimal() else text

    def _splits(self, env: str) -> tuple[SplitKind, ...]:
        """The splits, or the world's own."""
        return self.splits or (self._own(env)[1],)

    def _own(self, env: str) -> tuple[int | range, SplitKind]:
        """The sizes and the split of a world; of one that only a file names, and nothing imports, those of most."""
        if env not in WORLDS:
            return 5, "scenes"
        world = _world(env, max(self.n + self.large), self.world_settings)
        return world.default_k, default_split(world)

    def spelled_out(self) -> "SweepConfig":
        """With sizes and split of worlds of one's own, so that the sweep's file alone names the runs."""
        own = {(write_sizes(self._sizes(env)[0]), self._splits(env)) for env in self.envs}
        if not self.typed["worlds"] or len(own) > 1:
            return self
        ((sizes, splits),) = own
        return replace(self, k=sizes, splits=splits)

    def _refuse_sizes(self, sizes: range) -> None:
        """Refuse libraries that are smaller than a scene."""
        if sizes[-1] > MAX_OBJECTS:
            raise HowmError(f"k must be in 1-{MAX_OBJECTS}, got {sizes[-1]}")
        for n in (*self.n, *self.large):
            if n < sizes[-1]:
                raise HowmError(
                    f"a library of n={n} objects has no scene of k={sizes[-1]}; give n of {sizes[-1]} or more"
                )

    def overrides(self, run: PlannedRun) -> list[str]:
        """What the run changes of its method's preset."""
        row, budget = self.rows[run.method], BUDGETS[self.budget]
        own = [setting for setting in self.settings if has_setting(find_method(row.method), setting)]
        kind = extractor_kind(parse_settings([*own, *row.settings]))
        chosen = {} if kind is None else {"model": {"extractor": {"kind": kind}}}
        config = read_config(row.method, budget.preset, chosen, spec=self._spec(run))
        groups = {"train": config.train} | ({"represent": config.represent} if config.represent else {})
        settings = []
        share = self.steps_share
        if share != 1:
            settings = [f"{group}.steps={max(1, round(share * c.steps))}" for group, c in groups.items()]
        return [*settings, *own, *row.settings]

    def first_mismatch(self, other: "SweepConfig") -> str | None:
        """What is not the same for runs that both grids have, in words."""
        for name in _SHARED:
            mine, its = getattr(self, name), getattr(other, name)
            if mine != its:
                return f"{name}={mine}, not {its}"
        for name in self.rows.keys() & other.rows.keys():
            if self.rows[name] != other.rows[name]:
                return f"another variant {name}"
        return None

    def run_config(self, run: PlannedRun) -> RunConfig:
        preset = BUDGETS[self.budget].preset
        settings = parse_settings(self.overrides(run))
        return read_config(self.rows[run.method].method, preset, settings, spec=self._spec(run))

    def _spec(self, run: PlannedRun) -> WorldSpec:
        """What a preset may depend on."""
        trained, larger = self._sizes(run.world)
        largest = (larger or trained)[-1]
        spec = _world(run.world, run.n, self.world_settings).spec(largest)
        return replace(spec, varied_count=trained[0] < largest)


@cache
def _world(world: str, n: int, settings: tuple[str, ...]) -> World:
    """A world that is known, or that a person has typed."""
    return make_world(world, n, **parse_settings(settings))
