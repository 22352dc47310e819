"""The tables of a folder of results: every number is that of a file, what is missing stays missing."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from howm.collected import (
    Measure,
    Result,
    Results,
    ended,
    in_paper,
    minutes,
    name_of,
    pixel_error,
    reconstruction,
    score,
    value,
)
from howm.models.methods import METHODS
from howm.published import MEMORY_GB, Published, library_sizes, out_of_memory, published
from howm.table import Cell, Column, Spread, Table

Theirs = Callable[[Published], float | None]

TITLES = {"shapes": "Shapes", "rush_hour": "Rush Hour"}
POOLS = {"eval": "paper's pool", "eval_hard": "hard pool"}
STEPS = ("1", "5", "10")
ENCODER = "howm"  # through whose encoder doing nothing is seen, where one stands for all
LEGEND = "– has not been run; OM is out of memory."
# What benchmarks/ablation.yaml changes, in the order of the table.
ABLATION = {
    "howm": "howm",
    "no-witness": "no witness",
    "softmax-over-slots-lift-by-attention": "softmax over slots, lift by attention",
    "softmax-over-slots-lift-by-pseudo-inverse": "softmax over slots, lift by pseudo-inverse",
    "lift-by-attention": "lift by attention",
    "lift-by-pseudo-inverse": "lift by pseudo-inverse",
    "linear-maps": "linear maps",
    "sigma-05": "sigma 0.5",
    "balanced-attention": "balanced attention",
    "slot-attention": "slot attention",
    "howm-paper": "howm-paper",
}


def cell(runs: Sequence[Result], measure: Measure, digits: int = 1, sign: bool = False) -> Cell:
    """The runs that ended well, where some did; else why none did."""
    values = [found for run in ended(runs) if (found := measure(run)) is not None]
    if values:
        return Spread.of(values, digits, sign)
    statuses = {run["status"] for run in runs} - {"ok"}
    return None if ended(runs) or not statuses else "OM" if "OM" in statuses else "failed"


def scores(runs: Sequence[Result], part: str, steps: Sequence[str] = STEPS) -> list[Cell]:
    return [cell(runs, score(part, k)) for k in steps]


def worst(runs: Sequence[Result], measure: Measure) -> Cell:
    values = [found for run in ended(runs) if (found := measure(run)) is not None]
    return Spread(min(values), seeds=len(values), digits=2) if values else None


def binding(runs: Sequence[Result]) -> list[Cell]:
    """Extraction and binding of the worst seed."""
    return [worst(runs, value("binding", stage)) for stage in ("extraction", "binding")]


def gap(runs: Sequence[Result]) -> Cell:
    """Training scenes minus unseen ones."""
    return cell(runs, value("gap_hard", "5"), sign=True)


def costs(runs: Sequence[Result]) -> list[Cell]:
    return [cell(runs, minutes), cell(runs, value("peak_memory_mb"), 0)]


BINDING = (Column("extraction", "worst seed, %"), Column("binding", "worst seed, %"))
COSTS = (Column("CPU minutes"), Column("MB"))
GAP = Column("gap, hard pool, 5 steps")


def steps_of(group: str, steps: Sequence[str] = STEPS) -> tuple[Column, ...]:
    return tuple(Column(k, f"{group} after steps", bar=True) for k in steps)


def papers(env: str, method: str, n: int, k: int, read: Theirs | None = lambda p: p.mrr_5) -> Cell:
    """The paper's number, as it stands there; nothing of what it does not report."""
    if read is None:
        return None
    if out_of_memory(env, method, n, k):
        return "OM"
    found = published(env, method, n, k)
    number = None if found is None else read(found)
    return None if number is None else str(number)


def control(name: str, measure: Measure) -> Measure:
    """What is read off a run, of one of its controls."""
    return lambda run: measure(run.get("controls", {}).get(name, {}))


# What has to be said beside the numbers.


def notes(runs: Sequence[Result]) -> str:
    """What a reader of a table of these runs must know of them."""
    said = []
    if any(run["n"] == run["k"] for run in runs):
        said.append("At N = K there is one scene, so nothing is unseen.")
    pools: dict[int, set[str]] = {}
    for run in ended(runs):
        pools.setdefault(run["pool"], set()).add(name_of(run))
    if len(pools) > 1:
        most = max(pools, key=lambda size: len(pools[size]))
        parts = [f"{', '.join(sorted(pools[size]))} among {size:,}" for size in sorted(pools) if size != most]
        said.append(f"References differ: {'; '.join(parts)}; the others among {most:,}.")
    lost: dict[tuple[str, str], list[str]] = {}
    for run in runs:
        if run["status"] != "ok":
            name = f"{name_of(run)}, N={run['n']}"
            lost.setdefault((name, _reason(run)), []).append(str(run["seed"]))
    said += [f"{name}, seed{'s' * (len(seeds) > 1)} {', '.join(seeds)}: {why}." for (name, why), seeds in lost.items()]
    return " ".join(said)


def _reason(run: Result) -> str:
    if run["status"] == "OM":
        return f"out of {run['memory_limit_mb']:,.0f} MB of memory" if "memory_limit_mb" in run else "out of memory"
    return f"failed ({run.get('reason', 'no reason was given')})"


def setting(runs: Sequence[Result]) -> str:
    """The worlds, sizes and pools of some runs, as far as they have them in common."""
    worlds, sizes, objects = ({run[key] for run in runs} for key in ("env", "n", "k"))
    pools = {run["pool"] for run in ended(runs)}
    parts = [", ".join(TITLES[env] for env in sorted(worlds, reverse=True))]
    parts += [f"{name}={next(iter(found))}" for name, found in (("N", sizes), ("K", objects)) if len(found) == 1]
    parts += [f"{next(iter(pools)):,} references"] if len(pools) == 1 else []
    return ", ".join(parts)


# The paper's tables: methods below each other, library sizes beside each other.


@dataclass(frozen=True)
class Measured:
    """One column under each library size: how to read it off a run and off the paper."""

    name: str
    of: Measure
    theirs: Theirs | None = None
    digits: int = 1
    sign: bool = False


def sizes_of(env: str, runs: Sequence[Result]) -> list[int]:
    """The paper's library sizes, whether they have been run or not, and those of the runs."""
    return sorted({*library_sizes(env), *(run["n"] for run in runs)})


def paper_table(results: Results, env: str, title: str, note: str, measured: Sequence[Measured]) -> Table:
    """All methods of one world, the paper's numbers under ours where it has some; last, what they must beat."""
    runs = results.paper(env)
    sizes = sizes_of(env, runs)
    columns = [Column("method", code=True), Column("")]
    for n in sizes:
        columns += [Column("seeds", f"N = {n}")]
        columns += [Column(one.name, f"N = {n}", bar=not one.sign) for one in measured]
    rows: list[tuple[Cell, ...]] = []
    for method in METHODS:
        cells = {n: results.of(env, 5, n, method) for n in sizes}
        ours: list[Cell] = []
        theirs: list[Cell] = []
        for n, found in cells.items():
            ours += [len(ended(found)) or None, *(cell(found, one.of, one.digits, one.sign) for one in measured)]
            theirs += [None, *(papers(env, method, n, 5, one.theirs) for one in measured)]
        rows.append((method, "ours", *ours))
        if any(entry is not None for entry in theirs):
            rows.append((method, "paper", *(entry if entry is not None else "" for entry in theirs)))
    still: list[Cell] = []
    for n in sizes:
        found = results.of(env, 5, n, ENCODER)
        still.append(len(ended(found)) or None)
        still += [cell(found, control("do_nothing", one.of), one.digits) for one in measured]
    rows.append(("do_nothing", "control", *still))
    note += f" do_nothing predicts no change, with the encoder of {ENCODER}."
    return Table(title, f"{note} {LEGEND} {notes(runs)}".strip(), tuple(columns), tuple(rows), labels=2)


_GAPS = {"eval": "gap", "eval_hard": "gap_hard"}
_PAPERS: dict[str, Theirs] = {"1": lambda p: p.mrr_1, "5": lambda p: p.mrr_5}


def mrr_table(results: Results, env: str, pool: str) -> Table:
    easy = pool == "eval"
    number = {"shapes": "Table 1", "rush_hour": "Table 2"}[env]
    title = f"{TITLES[env]}, MRR in the {POOLS[pool]}" + (f" ({number} of the paper)" if easy else "")
    note = "Percent on unseen scenes after 1, 5 and 10 steps; gap: training scenes minus unseen scenes after 5."
    measured = [Measured(k, score(pool, k), _PAPERS.get(k) if easy else None) for k in STEPS]
    gap = Measured("gap", value(_GAPS[pool], "5"), (lambda p: p.gap_5) if easy else None, sign=True)
    return paper_table(results, env, title, note, [*measured, gap])


def h1_table(results: Results, env: str, pool: str) -> Table:
    easy = pool == "eval"
    title = f"{TITLES[env]}, H@1 in the {POOLS[pool]}" + (" (the paper's appendix)" if easy else "")
    note = "Percent on unseen scenes after 1, 5 and 10 steps."
    if easy:
        note += " The appendix has H@1 after 5 steps only; HOWM's rows, which it swaps, are swapped back."
    measured = [Measured(k, score(pool, k, "h1"), (lambda p: p.h1_5) if easy and k == "5" else None) for k in STEPS]
    return paper_table(results, env, title, note, measured)


CONTROLS = {"do_nothing": "do nothing", "oracle": "oracle", "random": "random", "constant": "constant"}


def control_table(results: Results, env: str, pool: str) -> Table:
    """What a model must beat. Doing nothing is seen through the encoder of each model; the others are not."""
    runs = ended(results.paper(env))
    sizes = sizes_of(env, results.paper(env))
    columns = [Column("control"), Column("of")]
    columns += [Column(k, f"N = {n}", bar=True) for n in sizes for k in STEPS]
    rows: list[tuple[Cell, ...]] = []

    def add(name: str, label: str, some: list[Result]) -> None:
        read = {k: control(name, score(pool, k)) for k in STEPS}
        found = [cell([run for run in some if run["n"] == n], read[k], 2) for n in sizes for k in STEPS]
        rows.append((CONTROLS[name], label, *found))

    for name in CONTROLS:
        if name == "do_nothing":
            for method in METHODS:
                add(name, method, [run for run in runs if run["method"] == method])
        else:
            for size in sorted({run["pool"] for run in runs}, reverse=True):
                add(name, f"{size:,} references", [run for run in runs if run["pool"] == size])
    note = "MRR in percent after 1, 5 and 10 steps. Doing nothing is the model's own encoding of the first frame."
    return Table(f"{TITLES[env]}, controls in the {POOLS[pool]}", f"{note} {LEGEND}", tuple(columns), tuple(rows), 2)


def cost_table(results: Results, env: str) -> Table:
    """Memory, time and size of all methods; the paper's memory is that of a GPU."""
    sizes = sizes_of(env, results.paper(env))
    kinds: dict[str, tuple[Measure, int]] = {
        "peak memory, MB": (value("peak_memory_mb"), 0),
        "training, CPU minutes": (minutes, 1),
        "parameters, thousands": (lambda run: run["params"] / 1000 if "params" in run else None, 0),
    }
    columns = [Column("method", code=True), Column("")]
    columns += [Column(f"N = {n}", group) for group in kinds for n in sizes]
    rows: list[tuple[Cell, ...]] = []
    for method in METHODS:
        found = [results.of(env, 5, n, method) for n in sizes]
        theirs = MEMORY_GB.get(method) if env == "shapes" else None
        ours = [cell(some, measure, digits) for measure, digits in kinds.values() for some in found]
        rows.append((method, "ours", *ours))
        if theirs is not None:
            blank = [""] * (len(sizes) * (len(kinds) - 1))
            rows.append((method, "paper", *(f"{theirs} GB" if n == 20 else "" for n in sizes), *blank))
    note = "Of the process that trains, on CPU cores."
    if env == "shapes":
        note += " The paper gives GPU memory at N = 20."
    return Table(f"{TITLES[env]}, cost", f"{note} {LEGEND}", tuple(columns), tuple(rows), 2)


# Tables of one line for each cell.


def glance(results: Results) -> Table:
    """All methods at one size, in few columns: for the top of the README."""
    env, n, k = "shapes", 10, 5
    columns = (
        *(Column("method", code=True), Column("seeds"), Column("the paper has")),
        *(Column("paper's pool", bar=True), Column("hard pool", bar=True), COSTS[0]),
    )
    everything = [run for run in (*results.grid, *results.variants) if (run["env"], run["n"], run["k"]) == (env, n, k)]
    rows: list[tuple[Cell, ...]] = []
    for method, name in _rows_of(everything):
        runs = [run for run in everything if name_of(run) == name]
        theirs = papers(env, name, n, k) if name == method else None
        pools = [cell(runs, score(part, "5")) for part in POOLS]
        rows.append((name, len(ended(runs)), theirs, *pools, cell(runs, minutes)))
    still = [run for run in everything if name_of(run) == ENCODER]
    pools = [cell(still, control("do_nothing", score(part, "5"))) for part in POOLS]
    rows.append(("do_nothing", len(ended(still)), None, *pools, None))
    note = (
        "Shapes, N=10, K=5: MRR in percent of predictions five steps ahead in unseen scenes. `do_nothing` is "
        f"the control: what `{ENCODER}` would score if it predicted that nothing moves. {notes(everything)}"
    )
    return Table("At a glance", note.strip(), columns, tuple(rows))


def _rows_of(runs: Sequence[Result], *more: str) -> list[tuple[str, str]]:
    """Methods of runs and more, each followed by its variants: the name of the method, and its own."""
    order = list(METHODS)
    found = {(run["method"], name_of(run)) for run in runs} | {(method, method) for method in more}
    return sorted(found, key=lambda row: (order.index(row[0]), row[0] != row[1], row[1]))


def overview(results: Results, env: str) -> Table:
    """All methods at the paper's sizes, run or not, and all else that was run on one world, in a line each."""
    columns = (
        *(Column("method", code=True), Column("N"), Column("seeds"), Column("paper, 5 steps")),
        *steps_of("unseen, paper's pool"),
        *steps_of("unseen, hard pool"),
        *steps_of("training scenes, hard pool"),
        *COSTS,
    )
    everything = [*results.paper(env), *(run for run in results.variants if run["env"] == env and in_paper(run))]
    rows = []
    for method, name in _rows_of(everything, *METHODS):
        sizes = {run["n"] for run in everything if name_of(run) == name}
        for n in sorted({*sizes, *library_sizes(env)} if name == method else sizes):
            runs = [run for run in everything if (name_of(run), run["n"]) == (name, n)]
            head = (name, n, len(ended(runs)), papers(env, name, n, 5) if name == method else None)
            pools = [entry for part in ("eval", "eval_hard", "train_hard") for entry in scores(runs, part)]
            rows.append((*head, *pools, *costs(runs)))
    note = f"K=5, MRR in percent. {LEGEND} {notes(everything)}".strip()
    return Table(TITLES[env], note, columns, tuple(rows), 2)


def howm_table(results: Results) -> Table:
    """HOWM in full: long rollouts, the worst seed, the gap, and what the ground truth says of slots and bindings."""
    steps = (*STEPS, "50")
    columns = (
        *(Column("world"), Column("N"), Column("seeds"), Column("paper, 5 steps")),
        *steps_of("paper's pool", steps),
        *steps_of("hard pool", steps),
        *(Column("worst seed, hard, 5 steps"), GAP, *BINDING, *COSTS),
    )
    rows = []
    ours = [run for env in results.worlds() for run in results.paper(env) if run["method"] == "howm"]
    for env, n in dict.fromkeys((run["env"], run["n"]) for run in ours):
        runs = results.of(env, 5, n, "howm")
        head = (TITLES[env], n, len(ended(runs)), papers(env, "howm", n, 5))
        pools = [entry for part in POOLS for entry in scores(runs, part, steps)]
        rows.append((*head, *pools, worst(runs, score("eval_hard", "5")), gap(runs), *binding(runs), *costs(runs)))
    note = f"K=5, unseen scenes, MRR in percent. {notes(ours)}".strip()
    return Table("HOWM in full", note, columns, tuple(rows), 2)


def binding_table(results: Results) -> Table:
    """Where HOWM's errors come from, by the environment's ground truth."""
    stages = ("binding", "extraction", "transition")
    columns = (
        *(Column("method", code=True), Column("world"), Column("N"), Column("seeds")),
        *(Column(name, "percent found") for name in ("extraction", "binding", "weight", "absent to background")),
        *(Column(stage, "MRR lost to, hard pool") for stage in stages),
        *(Column(name, "pixel error × 10⁶") for name in ("predicted", "reconstructed", "first frame")),
    )
    rows = []
    found = [run for run in ended(results.grid) if "binding" in run]
    for method, env, n, k in dict.fromkeys((run["method"], run["env"], run["n"], run["k"]) for run in found):
        runs = [run for run in results.of(env, k, n, method) if "binding" in run]
        world = TITLES[env] + ("" if k == 5 else f", K={k}")
        shares = ("extraction", "binding", "weight", "absent_to_background")
        cells = [cell(runs, value("binding", name), 2) for name in shares]
        cells += [cell(runs, value("binding", "lost_to", stage), 2) for stage in stages]
        cells += [cell(runs, pixel_error(name), 0) for name in ("predicted", "reconstructed", "first_frame")]
        rows.append((method, world, n, len(runs), *cells))
    note = (
        "Extraction: frames in which each object has a slot of its own. Binding: objects whose actions go to the slot "
        "that holds them; weight: with how much of the action. MRR at 5 steps that would be won if a stage were right."
    )
    return Table("HOWM, slots and binding by the ground truth", f"{note} {LEGEND}", columns, tuple(rows), 3)


def segmentation_table(results: Results) -> Table:
    columns = (
        *(Column("method", code=True), Column("world"), Column("N"), Column("K"), Column("seeds")),
        *(Column("foreground ARI, %"), Column("matched IoU, %"), Column("reconstruction error × 10⁶")),
    )
    found = [run for run in (*results.grid, *results.variants) if "segmentation" in run]
    rows = []
    for key in dict.fromkeys((name_of(run), run["env"], run["n"], run["k"]) for run in found):
        runs = [run for run in found if (name_of(run), run["env"], run["n"], run["k"]) == key]
        cells = [cell(runs, value("segmentation", name)) for name in ("foreground_ari", "matched_iou")]
        cells.append(cell(runs, reconstruction, 0))
        rows.append((key[0], TITLES[key[1]], *key[2:], len(runs), *cells))
    note = (
        "Masks in unseen frames against the true objects. A mask that is made of whole cells covers the corners around "
        "its object too, which the IoU counts and the foreground ARI does not. Older results do not have it."
    )
    return Table("Segmentation", note, columns, tuple(rows), 4)


def reach_table(results: Results) -> Table:
    """All runs outside the paper's grid."""
    columns = (
        *(Column("method", code=True), Column("world"), Column("N"), Column("K"), Column("seeds"), *BINDING),
        *steps_of("paper's pool"),
        *steps_of("hard pool"),
        *(GAP, *COSTS),
    )
    others = [run for run in results.grid if not in_paper(run)]
    rows = []
    for method, env, k, n in sorted({(run["method"], run["env"], run["k"], run["n"]) for run in others}):
        runs = results.of(env, k, n, method)
        pools = [entry for part in POOLS for entry in scores(runs, part)]
        cells = (*binding(runs), *pools, gap(runs), *costs(runs))
        rows.append((method, TITLES[env], n, k, len(ended(runs)), *cells))
    note = f"MRR in percent, unseen scenes. {notes(others)}".strip()
    return Table("Larger libraries, more objects", note, columns, tuple(rows), 4)


def variant_table(results: Results) -> Table:
    """Methods with keys changed, as a sweep runs them beside the others."""
    columns = (
        *(Column("variant", code=True), Column("world"), Column("N"), Column("K"), Column("of"), Column("seeds")),
        *steps_of("paper's pool"),
        *steps_of("hard pool"),
        *(GAP, *COSTS),
    )
    rows = []
    for key in sorted({(run["variant"], run["env"], run["n"], run["k"]) for run in results.variants}):
        runs = [run for run in results.variants if (run["variant"], run["env"], run["n"], run["k"]) == key]
        methods = sorted({run["method"] for run in ended(runs)})
        pools = [entry for part in POOLS for entry in scores(runs, part)]
        cells = (*pools, gap(runs), *costs(runs))
        rows.append((key[0], TITLES[key[1]], *key[2:], ", ".join(methods) or None, len(ended(runs)), *cells))
    note = f"MRR in percent, unseen scenes. {notes(results.variants)}".strip()
    return Table("Variants", note, columns, tuple(rows), 4)


def ablation_table(results: Results) -> Table:
    columns = (
        *(Column("what is changed"), Column("world"), Column("N"), Column("seeds")),
        *(Column("extraction %"), Column("binding %")),
        *steps_of("paper's pool"),
        *steps_of("hard pool"),
    )
    rows = []
    order = list(ABLATION)
    found = {(run["env"], run["n"], name_of(run)) for run in results.ablation}
    for env, n, variant in sorted(found, key=lambda key: (*key[:2], (*order, key[2]).index(key[2]), key[2])):
        runs = [run for run in results.ablation if (run["env"], run["n"], name_of(run)) == (env, n, variant)]
        stages = [cell(runs, value("binding", stage)) for stage in ("extraction", "binding")]
        pools = [entry for part in POOLS for entry in scores(runs, part)]
        rows.append((ABLATION.get(variant, variant), TITLES[env], n, len(ended(runs)), *stages, *pools))
    note = f"HOWM with one thing changed; {setting(results.ablation)}. {notes(results.ablation)}".strip()
    return Table("What each part brings", note, columns, tuple(rows), 3)


def few_scenes_table(results: Results) -> Table:
    """Where combinations are rare in training, the gap to unseen ones is seen."""
    columns = (
        *(Column("method", code=True), Column("world"), Column("N"), Column("training scenes"), Column("seeds")),
        *(Column(k, f"{part}, {pool}", bar=True) for pool in POOLS.values() for part in ("training", "unseen")
          for k in ("1", "5")),
        GAP,
    )  # fmt: skip
    rows = []
    for method, env, n in dict.fromkeys((name_of(run), run["env"], run["n"]) for run in results.few_scenes):
        runs = [run for run in results.few_scenes if (name_of(run), run["env"], run["n"]) == (method, env, n)]
        scenes = sorted({run["train_scenes"] for run in ended(runs)})
        pools = [scores(runs, part, ("1", "5")) for part in ("train", "eval", "train_hard", "eval_hard")]
        entries = [entry for pool in pools for entry in pool]
        rows.append((method, TITLES[env], n, ", ".join(map(str, scenes)), len(ended(runs)), *entries, gap(runs)))
    note = f"MRR in percent; {setting(results.few_scenes)}. {notes(results.few_scenes)}".strip()
    return Table("Trained on few scenes", note, columns, tuple(rows), 4)


def transfer_table(results: Results) -> Table:
    columns = (
        *(Column("model", code=True), Column("objects in a scene"), *BINDING),
        *steps_of("paper's pool"),
        *steps_of("hard pool"),
    )
    rows = []
    for model, run in results.transfer:
        pools = [entry for part in POOLS for entry in scores([run], part)]
        rows.append((model, run["k"], *binding([run]), *pools))
    runs = [run for _, run in results.transfer]
    note = f"MRR in percent; {setting(runs)}. {notes(runs)}".strip()
    return Table("Other numbers of objects, without retraining", note, columns, tuple(rows), 2)


def negative_groups(results: Results) -> dict[tuple[str, int, str], list[Result]]:
    """Runs by world, N, and whether their negatives were controlled or uncontrolled."""
    found: dict[tuple[str, int, str], list[Result]] = {}
    for run in results.negatives:
        found.setdefault((run["env"], run["n"], name_of(run)), []).append(run)
    return dict(sorted(found.items()))


def negatives_table(results: Results) -> Table:
    columns = [Column("world"), Column("N"), Column("negatives"), Column("seeds")]
    columns += [Column(name, f"5 steps, {pool}", bar=True) for pool in POOLS.values() for name in ("H@1", "MRR")]
    rows = []
    for (env, n, negatives), runs in negative_groups(results).items():
        cells = [cell(runs, score(pool, "5", measure)) for pool in POOLS for measure in ("h1", "mrr")]
        rows.append((TITLES[env], n, negatives, len(ended(runs)), *cells))
    note = "Σ_N-CSWM; controlled: half of the negatives come from the same scene." if rows else "Nothing has been run."
    return Table("Negative sampling", note, tuple(columns), tuple(rows), 3)


def others_table(results: Results) -> Table:
    """Runs on imported data, a line each: worlds of the same name need not be the same."""
    steps = sorted({k for run in ended(results.others) for part in POOLS for k in run[part]}, key=int)
    columns = (
        *(Column("method", code=True), Column("world"), Column("N"), Column("K"), Column("seed")),
        *steps_of("paper's pool", steps),
        *steps_of("hard pool", steps),
        Column("scenes of evaluation"),
    )
    rows = []
    for run in results.others:
        pools = [entry for part in POOLS for entry in scores([run], part, steps)]
        rows.append((run["method"], run["env"], run["n"], run["k"], run["seed"], *pools, run.get("unseen")))
    note = (
        "Imported data, MRR in percent. It cannot be simulated: its hard pool has the query's earlier frames only. "
        f"{notes(results.others)}"
    )
    return Table("Other worlds", note.strip(), columns, tuple(rows), 5)


def readme_tables(results: Results) -> list[Table]:
    worlds = [overview(results, env) for env in results.worlds()]
    others = [howm_table(results), reach_table(results), ablation_table(results), transfer_table(results)]
    others += [few_scenes_table(results), segmentation_table(results), negatives_table(results)]
    return [*worlds, *(table for table in others if table.rows)]


def report_tables(results: Results) -> dict[str, list[Table]]:
    """The tables of the report by the heading that they stand under; without those that would be empty."""
    worlds = results.worlds()
    found = {
        "MRR on unseen scenes": [mrr_table(results, env, pool) for env in worlds for pool in POOLS],
        "H@1 on unseen scenes": [h1_table(results, env, pool) for env in worlds for pool in POOLS],
        "HOWM in detail": [howm_table(results), binding_table(results), segmentation_table(results)],
        "Beyond the paper": [
            *(reach_table(results), transfer_table(results), ablation_table(results), few_scenes_table(results)),
            variant_table(results),
        ],
        "Negative sampling": [negatives_table(results)],
        "Cost": [cost_table(results, env) for env in worlds],
        "Controls": [control_table(results, env, pool) for env in worlds for pool in POOLS],
        "Other worlds": [others_table(results)],
    }
    return {name: kept for name, tables in found.items() if (kept := [table for table in tables if table.rows])}
