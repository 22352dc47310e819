"""Where the methods stand on the ladder of worlds, and what the kind of split does to them."""

from collections.abc import Sequence

from howm.report.results_folder import Results, control, ended, score
from howm.report.table import Cell, Column, Table
from howm.report.tables.entries import (
    COSTS,
    ENCODER,
    GAP,
    LEGEND,
    POOLS,
    STEPS,
    cell,
    costs,
    gap,
    notes,
    scores,
    setting,
    steps_of,
)
from howm.report.tables.paper import rows_of
from howm.runs.result import RunResult

# From the paper's worlds on, each one step nearer to what people care about.
LADDER = (
    *("shapes", "rush_hour", "push", "team", "classes"),
    *("free", "layers", "textured", "changing", "grand"),
)
SPLITS = ("scenes", "pairs", "minimal", "linked", "larger-k")


def ladder_table(results: Results, steps: str = "5") -> Table:
    """All methods in all worlds, in the hard pool; last, what they must beat and what can be had."""
    runs = results.ladder
    worlds = sorted({run.world for run in runs}, key=lambda world: ((*LADDER, world).index(world), world))
    columns = (Column("method", code=True), *(Column(results.world_title(world), bar=True) for world in worlds))

    def within(world: str, name: str | None = None) -> list[RunResult]:
        return [run for run in runs if run.world == world and name in (None, run.name)]

    rows: list[tuple[Cell, ...]] = [
        (name, *(cell(within(world, name), score("hard", steps)) for world in worlds)) for _, name in rows_of(runs)
    ]
    if runs:
        encoders = [within(world, ENCODER) for world in worlds]
        rows.append(("do_nothing", *(cell(some, control("do_nothing", "hard", steps)) for some in encoders)))
        rows.append(("oracle", *(_without_model(within(world), "oracle", steps) for world in worlds)))
    note = (
        f"MRR in percent in the hard pool after {steps} step{'s' * (steps != '1')}, unseen scenes; {_sizes(runs)}. "
        f"{_budget(runs)} do_nothing predicts no change, with the encoder of {ENCODER}; oracle is the true dynamics. "
        f"{LEGEND} {_not_run(worlds)}{notes(runs)}"
    )
    title = f"Where the methods stand on the ladder, {steps} step{'s' * (steps != '1')} ahead"
    return Table(title, note.strip(), columns, tuple(rows))


def split_table(results: Results) -> Table:
    """The same world and methods with splits of different kinds beside each other."""
    runs = results.splits
    kinds = sorted({run.split for run in runs}, key=lambda kind: ((*SPLITS, kind).index(kind), kind))
    columns = [Column("method", code=True)]
    for kind in kinds:
        columns += [Column(k, f"{kind}, after steps", bar=True) for k in STEPS] + [Column("gap", kind)]
    rows: list[tuple[Cell, ...]] = []

    def within(kind: str, name: str | None = None) -> list[RunResult]:
        return [run for run in runs if run.split == kind and name in (None, run.name)]

    for _, name in rows_of(runs):
        entries = ([*scores(within(kind, name), "hard"), gap(within(kind, name))] for kind in kinds)
        rows.append((name, *(entry for some in entries for entry in some)))
    if runs:
        blank: list[Cell] = [""]
        still = ([cell(within(kind, ENCODER), control("do_nothing", "hard", k)) for k in STEPS] for kind in kinds)
        rows.append(("do_nothing", *(entry for some in still for entry in [*some, *blank])))
        best = ([_without_model(within(kind), "oracle", k) for k in STEPS] for kind in kinds)
        rows.append(("oracle", *(entry for some in best for entry in [*some, *blank])))
    counts = "; ".join(f"{kind}: {_scenes(within(kind))}" for kind in kinds)
    note = (
        f"MRR in percent in the hard pool, unseen scenes; gap: training scenes minus unseen ones after 5 steps; "
        f"{setting(runs)}. Scenes: {counts}. {_budget(runs)} {notes(runs)}"
    )
    said = note.strip() if runs else "Nothing has been run."
    return Table("Splits that tell composition from memory", said, tuple(columns), tuple(rows))


def other_splits_table(results: Results) -> Table:
    """Runs whose split has a further rule, or whose scenes differ in size: a line for each setting."""
    columns = (
        *(Column("method", code=True), Column("world"), Column("N"), Column("K"), Column("split"), Column("seeds")),
        *steps_of("paper's pool"),
        *steps_of("hard pool"),
        *(GAP, *COSTS),
    )
    rows = []
    for key in dict.fromkeys((run.name, run.world, run.n, run.scene_size, run.split) for run in results.others):
        runs = [r for r in results.others if (r.name, r.world, r.n, r.scene_size, r.split) == key]
        pools = [entry for pool in POOLS for entry in scores(runs, pool)]
        head = (key[0], results.world_title(key[1]), *key[2:], len(ended(runs)))
        rows.append((*head, *pools, gap(runs), *costs(runs)))
    note = f"MRR in percent, unseen scenes. {notes(results.others)}".strip()
    return Table("Other splits and sizes of scenes", note, columns, tuple(rows), 5)


def _not_run(worlds: Sequence[str]) -> str:
    lacking = [world for world in LADDER if world not in worlds]
    return f"Not run: {', '.join(lacking)}. " if lacking else ""


def _without_model(runs: Sequence[RunResult], name: str, steps: str) -> Cell:
    """A control that no model takes part in: of one run of each seed, among the most references."""
    most = max((run.references for run in ended(runs)), default=0)
    by_seed = {run.seed: run for run in ended(runs) if run.references == most}
    return cell([*by_seed.values()], control(name, "hard", steps))


def _scenes(runs: Sequence[RunResult]) -> str:
    training = sorted({run.training_scenes for run in ended(runs) if run.training_scenes is not None})
    evaluation = sorted({run.scenes for run in ended(runs)})
    return f"{', '.join(map(str, training)) or '–'} of training, {', '.join(map(str, evaluation)) or '–'} of evaluation"


def _sizes(runs: Sequence[RunResult]) -> str:
    """N and K; worlds whose scenes are not of the most common kind by name."""
    libraries = ", ".join(map(str, sorted({run.n for run in runs}))) or "–"
    sizes = sorted(str(run.k) for run in runs if run.sizes is None)
    common = max(set(sizes), key=sizes.count, default="–")
    others = {run.world_title: f"{run.world_title} with K={run.scene_size}" for run in runs if run.scene_size != common}
    others |= {
        run.world_title: ", ".join(filter(None, (others.get(run.world_title, run.world_title), f"split {run.split}")))
        for run in runs
        if run.split != "scenes"
    }
    return "; ".join([f"N={libraries}, K={common}", *others.values()])


def _budget(runs: Sequence[RunResult]) -> str:
    """How long each method was trained."""
    found = {name: {run.training_steps or 0 for run in ended(runs) if run.name == name} for _, name in rows_of(runs)}
    by_steps: dict[str, list[str]] = {}
    for name, steps in found.items():
        if not steps:
            continue
        said = f"{min(steps):,}" if len(steps) == 1 else f"{min(steps):,}-{max(steps):,}"
        by_steps.setdefault(said, []).append(name)
    seeds = len({run.seed for run in runs})
    text = "; ".join(f"{', '.join(names)} {steps}" for steps, names in by_steps.items())
    return f"Steps of training, slots included: {text}; {seeds} seed{'s' * (seeds != 1)}." if by_steps else ""
