"""What a sweep runs: a grid of methods × worlds × library sizes × seeds, and how much work each cell of it is."""

import re
from dataclasses import dataclass
from typing import Any, Literal

from howm.config import parse_settings
from howm.errors import HowmError
from howm.grid import Grid
from howm.library import WORLDS
from howm.models.methods import METHODS, RunConfig, find_method
from howm.scenes import seeded_split

GROUPS = ("model", "represent", "train")

BudgetName = Literal["quick", "cpu", "paper"]


@dataclass(frozen=True)
class Budget:
    """How much work a cell is: a preset, the share of its training steps, and the references of its evaluation."""

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
        if not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", self.name):
            raise HowmError(f"name={self.name!r} cannot be part of a file's name; use letters, digits and hyphens")
        find_method(self.method)


@dataclass(frozen=True, order=True)
class Cell:
    env: str
    n: int
    k: int
    method: str
    seed: int

    @property
    def world(self) -> str:
        return f"{self.env}-n{self.n}-k{self.k}"

    @property
    def name(self) -> str:
        return f"{self.world}/{self.method}-seed{self.seed}"


@dataclass(frozen=True)
class SweepConfig:
    """The grid. ``settings`` override keys of every method that has them; ``large`` are sizes for Shapes alone.

    ``variants`` are run beside the methods. ``train_scenes`` and ``grid`` are those of `howm data make`.
    """

    methods: tuple[str, ...] = tuple(METHODS)
    variants: tuple[Variant, ...] = ()
    envs: tuple[str, ...] = ("shapes", "rush_hour")
    n: tuple[int, ...] = (5, 10, 20)
    large: tuple[int, ...] = (30,)
    k: int = 5
    grid: str = "5x5"
    train_scenes: int | None = None
    seeds: tuple[int, ...] = (0, 1, 2)
    budget: BudgetName = "cpu"
    steps: tuple[int, ...] = (1, 5, 10)
    episodes: int | None = None  # of evaluation; the budget's, if not given
    settings: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name in ("envs", "seeds", "steps"):
            if not getattr(self, name):
                raise HowmError(f"a sweep needs at least one value of {name}")
        for name in ("envs", "n", "seeds"):
            values = getattr(self, name)
            twice = [value for value in values if values.count(value) > 1]
            if twice:
                raise HowmError(f"{name} has {twice[0]} twice; give each once")
        if not self.methods and not self.variants:
            raise HowmError("a sweep needs at least one of methods or variants")
        if not self.n and not self.large:
            raise HowmError("a sweep needs at least one value of n")
        for method in self.methods:
            find_method(method)
        names = [*self.methods, *(variant.name for variant in self.variants)]
        for name in names:
            if names.count(name) > 1:
                raise HowmError(f"{name} stands twice among the methods and variants; give each a name of its own")
        for env in self.envs:
            if env not in WORLDS:
                raise HowmError(f"unknown world {env!r}; choose one of {', '.join(WORLDS)}")
        for n in (*self.n, *self.large):
            if n < self.k:
                raise HowmError(f"a library of n={n} objects has no scene of k={self.k}; give n of {self.k} or more")
        if min(self.seeds) < 0:
            raise HowmError(f"seed={min(self.seeds)} is negative; give 0 or more")
        if self.episodes is not None and self.episodes < 2:
            raise HowmError(f"episodes={self.episodes} are too few to rank among; give 2 or more")
        if min(self.steps) < 1:
            raise HowmError(f"steps={list(self.steps)} cannot be evaluated; give numbers of 1 or more")
        Grid.parse(self.grid).check_room(self.k)
        for setting in self.settings:
            if setting.partition(".")[0] not in GROUPS:
                groups = ", ".join(GROUPS)
                raise HowmError(f"setting {setting!r} is of none of {groups}; give for example train.steps=1000")
        if self.train_scenes is not None:
            for n in {*self.n, *self.large} - {self.k}:
                seeded_split(n, self.k, 0, train_scenes=self.train_scenes)  # refuses too few and too many
        for setting in self.settings:
            if not any(method.has(setting) for method in METHODS.values()):
                raise HowmError(f"setting {setting!r} is of a key that no method has; leave it out")
        for cell in self.cells():
            self.run_config(cell)  # refuses values that a method cannot take, and keys that a variant's has not

    @property
    def eval_episodes(self) -> int:
        return self.episodes or BUDGETS[self.budget].eval_episodes

    @property
    def rows(self) -> dict[str, Variant]:
        """All methods and variants by name."""
        return {row.name: row for row in (*(Variant(name, name) for name in self.methods), *self.variants)}

    def cells(self) -> list[Cell]:
        """Seed by seed and small libraries first, so that a sweep that is cut short has some of everything."""
        return [
            Cell(env, n, self.k, name, seed)
            for seed in self.seeds
            for n in sorted({*self.n, *self.large})
            for env in self.envs
            for name in self.rows
            if n in self.n or env == "shapes"
        ]

    def overrides(self, cell: Cell) -> list[str]:
        """What the cell changes of its method's preset."""
        row, budget = self.rows[cell.method], BUDGETS[self.budget]
        config = find_method(row.method).config(budget.preset)
        groups = {"train": config.train} | ({"represent": config.represent} if config.represent else {})
        settings = []
        if budget.share != 1:
            settings = [f"{group}.steps={max(1, round(budget.share * c.steps))}" for group, c in groups.items()]
        settings += [setting for setting in self.settings if find_method(row.method).has(setting)]
        return [*settings, *row.settings]

    def unlike(self, other: "SweepConfig") -> str | None:
        """What is not the same for cells that both grids have, in words."""
        for name in ("budget", "grid", "train_scenes", "steps", "eval_episodes", "settings"):
            mine, its = getattr(self, name), getattr(other, name)
            if mine != its:
                return f"{name}={mine}, not {its}"
        for name in self.rows.keys() & other.rows.keys():
            if self.rows[name] != other.rows[name]:
                return f"another variant {name}"
        return None

    def run_config(self, cell: Cell) -> RunConfig:
        preset = BUDGETS[self.budget].preset
        return find_method(self.rows[cell.method].method).config(preset, parse_settings(self.overrides(cell)))
