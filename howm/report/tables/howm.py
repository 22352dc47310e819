"""HOWM in detail, and what the ground truth says of slots and bindings."""

from howm.report.results_folder import Results, diagnosed, ended, in_paper, lost_to, pixel_error, reconstruction, score
from howm.report.table import Column, Table
from howm.report.tables.entries import (
    BINDING,
    COSTS,
    GAP,
    POOLS,
    STEPS,
    binding,
    cell,
    costs,
    gap,
    notes,
    papers,
    scores,
    setting,
    steps_of,
    worst,
)
from howm.runs.result import RunResult


def howm_table(results: Results) -> Table:
    """HOWM in full: long rollouts, the worst seed, the gap, and what the ground truth says of slots and bindings."""
    steps = (*STEPS, "50", "100")
    columns = (
        *(Column("world"), Column("N"), Column("seeds"), Column("paper, 5 steps")),
        *steps_of("hard pool", steps),
        *steps_of("paper's pool", steps),
        *(Column("worst seed, hard, 5 steps"), GAP, *BINDING, *COSTS),
    )
    rows = []
    ours = [run for env in results.worlds() for run in results.paper(env) if run.method == "howm"]
    for env, n in dict.fromkeys((run.world, run.n) for run in ours):
        runs = results.of(env, 5, n, "howm")
        head = (results.world_title(env), n, len(ended(runs)), papers(env, "howm", n, 5))
        pools = [entry for part in POOLS for entry in scores(runs, part, steps)]
        rows.append((*head, *pools, worst(runs, score("hard", "5")), gap(runs), *binding(runs), *costs(runs)))
    note = f"K=5, unseen scenes, MRR in percent. {notes(ours)}".strip()
    return Table("HOWM in full", note, columns, tuple(rows), 2)


def binding_table(results: Results) -> Table:
    """Where errors come from, by the environment's ground truth."""
    stages = ("binding", "extraction", "transition")
    columns = (
        *(Column("method", code=True), Column("world"), Column("N"), Column("seeds")),
        *(Column(name, "percent found") for name in ("extraction", "binding", "weight", "absent to background")),
        *(Column(stage, "MRR lost to, hard pool") for stage in stages),
        *(Column(name, "pixel error × 10⁶") for name in ("predicted", "reconstructed", "first frame")),
    )
    rows = []
    found = [run for run in ended(results.grid) if run.binding is not None]
    for method, env, n, k in dict.fromkeys((run.method, run.world, run.n, run.k) for run in found):
        runs = [run for run in results.of(env, k, n, method) if run.binding is not None]
        world = results.world_title(env) + ("" if k == 5 else f", K={k}")
        shares = ("extraction", "binding", "weight", "absent_to_background")
        cells = [cell(runs, diagnosed(name), 2) for name in shares]
        cells += [cell(runs, lost_to(stage), 2) for stage in stages]
        cells += [cell(runs, pixel_error(name), 0) for name in ("predicted", "reconstructed", "first_frame")]
        rows.append((method, world, n, len(runs), *cells))
    note = (
        "Extraction: frames in which each object has a slot of its own. Binding: objects whose actions go to the slot "
        "that holds them; weight: with how much of the action. MRR at 5 steps that would be won if a stage were right."
    )
    return Table("Slots and binding by the ground truth", f"{note} {notes(found)}".strip(), columns, tuple(rows), 3)


def ari(run: RunResult) -> float | None:
    return None if run.segmentation is None else run.segmentation.foreground_ari


def iou(run: RunResult) -> float | None:
    return None if run.segmentation is None else run.segmentation.matched_iou


def segmentation_table(results: Results) -> Table:
    columns = (
        *(Column("method", code=True), Column("world"), Column("N"), Column("K"), Column("seeds")),
        *(Column("foreground ARI, %"), Column("matched IoU, %"), Column("reconstruction error × 10⁶")),
    )
    found = [run for run in (*results.grid, *results.variants) if run.segmentation is not None]
    rows = []
    for key in dict.fromkeys((run.name, run.world, run.n, run.k) for run in found):
        runs = [run for run in found if (run.name, run.world, run.n, run.k) == key]
        cells = [cell(runs, ari), cell(runs, iou)]
        cells.append(cell(runs, reconstruction, 0))
        rows.append((key[0], results.world_title(key[1]), *key[2:], len(runs), *cells))
    note = (
        "Masks in unseen frames against the true objects. A mask that is made of whole cells covers the corners around "
        "its object too, which the IoU counts and the foreground ARI does not. Older results do not have it."
    )
    return Table("Segmentation", f"{note} {notes(found)}".strip(), columns, tuple(rows), 4)


def reach_table(results: Results) -> Table:
    """All runs outside the paper's grid."""
    columns = (
        *(Column("method", code=True), Column("world"), Column("N"), Column("K"), Column("seeds"), *BINDING),
        *steps_of("hard pool"),
        *steps_of("paper's pool"),
        *(GAP, *COSTS),
    )
    others = [run for run in (*results.grid, *results.variants) if not in_paper(run)]
    rows = []
    for key in sorted({(run.name, run.world, run.k, run.n) for run in others}):
        runs = [run for run in others if (run.name, run.world, run.k, run.n) == key]
        name, env, k, n = key
        pools = [entry for part in POOLS for entry in scores(runs, part)]
        cells = (*binding(runs), *pools, gap(runs), *costs(runs))
        rows.append((name, results.world_title(env), n, k, len(ended(runs)), *cells))
    note = f"MRR in percent, unseen scenes. {notes(others)}".strip()
    return Table("Larger libraries, more objects", note, columns, tuple(rows), 4)


def transfer_table(results: Results) -> Table:
    columns = (
        *(Column("model", code=True), Column("objects in a scene"), *BINDING),
        *steps_of("hard pool"),
        *steps_of("paper's pool"),
    )
    rows = []
    for model, run in results.transfer:
        pools = [entry for part in POOLS for entry in scores([run], part)]
        rows.append((model, run.k, *binding([run]), *pools))
    runs = [run for _, run in results.transfer]
    note = f"MRR in percent; {setting(runs)}. {notes(runs)}".strip()
    return Table("Other numbers of objects, without retraining", note, columns, tuple(rows), 2)
