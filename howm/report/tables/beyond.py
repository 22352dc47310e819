"""What the paper's tables do not have: variants, ablations, few scenes, negatives, imported pictures."""

from howm.report.results_folder import Results, diagnosed, ended, score
from howm.report.table import Column, Table
from howm.report.tables.entries import (
    COSTS,
    GAP,
    POOLS,
    cell,
    costs,
    gap,
    notes,
    scores,
    setting,
    steps_of,
)
from howm.runs.result import Part, RunResult

# What benchmarks/ablation.yaml changes, in the order of the table.
ABLATION = {
    "howm": "howm",
    "no-identity-loss": "no identity loss",
    "softmax-over-slots-lift-by-attention": "softmax over slots, lift by attention",
    "softmax-over-slots-lift-by-pseudo-inverse": "softmax over slots, lift by pseudo-inverse",
    "lift-by-attention": "lift by attention",
    "lift-by-pseudo-inverse": "lift by pseudo-inverse",
    "linear-maps": "linear maps",
    "sigma-05": "sigma 0.5",
    "balanced-attention": "balanced attention",
    "slot-attention": "slot attention",
    "howm-paper": "howm-paper",
    "paper-three-iterations": "howm-paper, three iterations",
    "paper-all-gradients": "howm-paper, gradients through all iterations",
    "paper-three-iterations-all-gradients": "howm-paper, gradients through all of three iterations",
    "paper-broadcast": "howm-paper, broadcast decoder",
    "paper-begin": "howm-paper, keys and slots begin as usual",
    "paper-embedding-4": "howm-paper, embeddings of 4",
    "paper-sigma-05": "howm-paper, sigma 0.5",
    "paper-messages": "howm-paper, messages from the start",
}


def variant_table(results: Results) -> Table:
    """Methods with keys changed, as a sweep runs them beside the others."""
    columns = (
        *(Column("variant", code=True), Column("world"), Column("N"), Column("K"), Column("of"), Column("seeds")),
        *steps_of("hard pool"),
        *steps_of("paper's pool"),
        *(GAP, *COSTS),
    )
    rows = []
    for key in sorted({(run.name, run.world, run.n, run.k) for run in results.variants}):
        runs = [run for run in results.variants if (run.name, run.world, run.n, run.k) == key]
        methods = sorted({run.method for run in ended(runs)})
        pools = [entry for part in POOLS for entry in scores(runs, part)]
        cells = (*pools, gap(runs), *costs(runs))
        rows.append(
            (key[0], results.world_title(key[1]), *key[2:], ", ".join(methods) or None, len(ended(runs)), *cells)
        )
    note = f"MRR in percent, unseen scenes. {notes(results.variants)}".strip()
    return Table("Variants", note, columns, tuple(rows), 4)


def ablation_table(results: Results) -> Table:
    columns = (
        *(Column("what is changed"), Column("world"), Column("N"), Column("seeds")),
        *(Column("extraction %"), Column("binding %")),
        *steps_of("hard pool"),
        *steps_of("paper's pool"),
    )
    rows = []
    order = list(ABLATION)
    found = {(run.world, run.n, run.name) for run in results.ablation}
    for env, n, variant in sorted(found, key=lambda key: (*key[:2], (*order, key[2]).index(key[2]), key[2])):
        runs = [run for run in results.ablation if (run.world, run.n, run.name) == (env, n, variant)]
        stages = [cell(runs, diagnosed(stage)) for stage in ("extraction", "binding")]
        pools = [entry for part in POOLS for entry in scores(runs, part)]
        rows.append((ABLATION.get(variant, variant), results.world_title(env), n, len(ended(runs)), *stages, *pools))
    note = f"Ours and the paper's, one thing changed; {setting(results.ablation)}. {notes(results.ablation)}".strip()
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
    for method, env, n in dict.fromkeys((run.name, run.world, run.n) for run in results.few_scenes):
        runs = [run for run in results.few_scenes if (run.name, run.world, run.n) == (method, env, n)]
        scenes = sorted({run.training_scenes for run in ended(runs) if run.training_scenes is not None})
        parts: tuple[Part, ...] = ("training", "unseen")
        entries = [entry for pool in POOLS for part in parts for entry in scores(runs, pool, ("1", "5"), part)]
        rows.append(
            (method, results.world_title(env), n, ", ".join(map(str, scenes)), len(ended(runs)), *entries, gap(runs))
        )
    note = f"MRR in percent; {setting(results.few_scenes)}. {notes(results.few_scenes)}".strip()
    return Table("Trained on few scenes", note, columns, tuple(rows), 4)


def negative_groups(results: Results) -> dict[tuple[str, int, str], list[RunResult]]:
    """Runs by world, N, and whether their negatives were controlled or uncontrolled."""
    found: dict[tuple[str, int, str], list[RunResult]] = {}
    for run in results.negatives:
        found.setdefault((run.world, run.n, run.name), []).append(run)
    return dict(sorted(found.items()))


def negatives_table(results: Results) -> Table:
    columns = [Column("world"), Column("N"), Column("negatives"), Column("seeds")]
    columns += [Column(name, f"5 steps, {pool}", bar=True) for pool in POOLS.values() for name in ("H@1", "MRR")]
    rows = []
    for (env, n, negatives), runs in negative_groups(results).items():
        cells = [cell(runs, score(pool, "5", measure)) for pool in POOLS for measure in ("h1", "mrr")]
        rows.append((results.world_title(env), n, negatives, len(ended(runs)), *cells))
    note = f"Σ_N-CSWM; controlled: half of the negatives come from the same scene. {notes(results.negatives)}".strip()
    return Table("Negative sampling", note, tuple(columns), tuple(rows), 3)


def imported_table(results: Results) -> Table:
    """Runs on imported pictures, a line each: worlds of the same name need not be the same."""
    some = results.imported
    steps = sorted({k for run in ended(some) for pool in POOLS for k in run.scores["unseen"][pool]}, key=int)
    columns = (
        *(Column("method", code=True), Column("world"), Column("N"), Column("K"), Column("seed")),
        *steps_of("hard pool", steps),
        *steps_of("paper's pool", steps),
        Column("scenes of evaluation"),
    )
    rows = []
    for run in some:
        pools = [entry for pool in POOLS for entry in scores([run], pool, steps)]
        rows.append((run.name, run.world_title, run.n, run.k, run.seed, *pools, run.unseen))
    note = (
        "Imported data, MRR in percent. Nothing simulates it: its hard pool has the query's earlier frames only, and "
        f"is weaker than one with near misses. {notes(some)}"
    )
    return Table("Imported pictures", note.strip(), columns, tuple(rows), 5)
