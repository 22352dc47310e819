"""The charts of the page."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from statistics import mean

from howm.experiments.plan import PAPER_METHODS
from howm.report.charts import OTHERS, SIZES, Chart, Line, Strip, css, draw, draw_strips, ticks
from howm.report.published import published
from howm.report.results_folder import Measure, Results, control, ended, megabytes, minutes, score
from howm.report.tables.beyond import negative_groups
from howm.report.tables.entries import POOLS
from howm.report.tables.planning import Key, planning_groups, success
from howm.runs.plan_result import PlanResult
from howm.runs.result import Pool, RunResult


@dataclass(frozen=True)
class Figure:
    """Panels under one heading, and what their colours mean: names and styles."""

    title: str
    note: str
    panels: tuple[str, ...]
    legend: tuple[tuple[str, str], ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "legend", tuple((name, css(style)) for name, style in self.legend))


def glance(results: Results) -> str | None:
    """All methods in one look: the hard pool in unseen scenes, a dot for each setting, beside their own controls."""
    steps = results.headline_steps()
    if steps is None:
        return None
    runs = [run for run in results.finished() if run.n > run.k] or results.finished()
    strips = []
    for method in _methods(results, runs):
        own = [run for run in runs if run.method == method]
        settings = [[run for run in own if run.setting == setting] for setting in dict.fromkeys(r.setting for r in own)]
        dots = [_mean(some, score("hard", steps)) for some in settings]
        floors = [_mean(some, control("do_nothing", "hard", steps)) for some in settings]
        strips.append(Strip(results.method_title(method), style_of(results, method), _known(dots), _known(floors)))
    return draw_strips(f"MRR in the hard pool after {steps} steps", strips)


def _known(values: Sequence[float | None]) -> tuple[float, ...]:
    return tuple(value for value in values if value is not None)


# Charts.

NOTHING = "doing nothing, with the encoder of each"


def draw_figures(results: Results) -> list[Figure]:
    """What can be drawn of the runs: a chart over sizes needs two of them. The hard pool comes first."""
    figures = [
        *(_by_size(results), _by_steps(results), _by_optimal_steps(results), _by_cost(results)),
        *(_curves(results), _negatives(results)),
    ]
    return [figure for figure in figures if figure is not None]


def style_of(results: Results, method: str) -> str:
    """The class of the style sheet that gives a method its colour."""
    others = [name for name in results.methods() if name not in PAPER_METHODS]
    return f"m-{method}" if method in PAPER_METHODS else f"m-other-{others.index(method) % OTHERS}"


def _methods(results: Results, runs: Sequence[RunResult]) -> list[str]:
    return [method for method in results.methods() if any(run.method == method for run in runs)]


def _legend(
    results: Results, runs: Sequence[RunResult], *more: tuple[str, str]
) -> tuple[tuple[str, str], ...]:  # fmt: skip
    found = ((results.method_title(method), style_of(results, method)) for method in _methods(results, runs))
    return (*found, *more)


def _mean(runs: Sequence[RunResult], measure: Measure) -> float | None:
    values = [found for run in runs if (found := measure(run)) is not None]
    return mean(values) if values else None


def _against_n(runs: Sequence[RunResult], measure: Measure) -> tuple[tuple[float, float | None], ...]:
    found = {n: _mean([run for run in runs if run.n == n], measure) for n in sorted({run.n for run in runs})}
    return tuple((n, y) for n, y in found.items() if y is not None)


def _lines(results: Results, runs: Sequence[RunResult], measure: Measure) -> list[Line]:
    """A line for each method, over the sizes of the library."""
    return [
        Line(
            results.method_title(method),
            style_of(results, method),
            _against_n([run for run in runs if run.method == method], measure),
        )
        for method in _methods(results, runs)
    ]


def _sizes(runs: Sequence[RunResult]) -> tuple[float, ...]:
    """Sizes to name on an axis of powers; 30 would stand on the toes of 20."""
    return tuple(n for n in sorted({run.n for run in runs}) if n != 20 or len({run.n for run in runs}) < 5)


def _studies(results: Results, sizes: int = 1) -> list[tuple[str, list[RunResult]]]:
    """The title and the finished runs of each world and K that has been run with at least so many library sizes."""
    found = [(results.study_title(world, k), ended(results.of(world, k))) for world, k in results.studies()]
    return [(title, runs) for title, runs in found if len({run.n for run in runs}) >= sizes]


def _by_size(results: Results) -> Figure | None:
    steps, studies = results.headline_steps(), _studies(results, 2)
    if steps is None or not studies:
        return None
    panels, theirs_too = [], False
    for pool, (title, runs) in product(POOLS, studies):
        lines = _lines(results, runs, score(pool, steps))
        for method in _methods(results, runs):
            own = [run for run in runs if run.method == method]
            still = _against_n(own, control("do_nothing", pool, steps))
            lines.append(Line(f"doing nothing, encoder of {results.method_title(method)}", "control", still, "none"))
            theirs = _papers(own) if pool == "paper" and steps == "5" else ()
            if theirs:
                lines.append(Line(f"{results.method_title(method)} in the paper", f"m-{method} theirs", theirs, "ring"))
                theirs_too = True
        panels.append(draw(Chart(f"{title}, {POOLS[pool]}", "objects in the library", "MRR, %", tuple(lines),
                                 _sizes(runs), log_x=True, y_range=(0, 100))))  # fmt: skip
    everything = [run for _, runs in studies for run in runs]
    note = f"MRR in unseen scenes after {steps} steps." + _nothing_unseen(everything)
    note += " Rings are the paper's numbers of the same methods and sizes." if theirs_too else ""
    return Figure("MRR by library size", note, tuple(panels), _legend(results, everything, (NOTHING, "control")))


def _nothing_unseen(runs: Sequence[RunResult]) -> str:
    return " Where N = K, nothing is unseen." if any(run.n == run.k for run in runs) else ""


def _papers(runs: Sequence[RunResult]) -> tuple[tuple[float, float | None], ...]:
    """The paper's numbers that belong to some runs of one method, after five steps."""
    found = {run.n: published(run.world, run.method, run.n, run.k) for run in runs}
    return tuple((n, theirs.mrr_5) for n, theirs in sorted(found.items()) if theirs is not None)


def _by_steps(results: Results) -> Figure | None:
    panels, everything = [], []
    for pool, (title, runs) in product(POOLS, _studies(results)):
        for n in sorted({run.n for run in runs}):
            some = [run for run in runs if run.n == n]
            steps = sorted({int(k) for run in some for k in run.scores["unseen"][pool]})
            if len(steps) < 2:
                continue
            lines = []
            for method in _methods(results, some):
                own = [run for run in some if run.method == method]
                name = results.method_title(method)
                lines.append(Line(name, style_of(results, method), _against_steps(own, steps, pool)))
                still = _against_steps(own, steps, pool, "do_nothing")
                lines.append(Line(f"doing nothing, encoder of {name}", "control", still, "none"))
            panels.append(draw(Chart(f"{title}, N = {n}, {POOLS[pool]}", "steps", "MRR, %", tuple(lines), tuple(steps),
                                     log_x=True, y_range=(0, 100))))  # fmt: skip
            everything += some
    if not panels:
        return None
    note = "MRR in unseen scenes." + _nothing_unseen(everything)
    return Figure("MRR by steps", note, tuple(panels), _legend(results, everything, (NOTHING, "control")))


def _against_steps(
    runs: Sequence[RunResult], steps: Sequence[int], pool: Pool, of: str | None = None
) -> tuple[tuple[float, float | None], ...]:
    """Means of runs, or of one of their controls."""
    found = [(k, _mean(runs, score(pool, str(k)) if of is None else control(of, pool, str(k)))) for k in steps]
    return tuple((float(k), y) for k, y in found if y is not None)


REACH = {"1-5": 3, "6-10": 8, "11-20": 15, "21-40": 30}  # where the lengths of plans stand on an axis


def _by_optimal_steps(results: Results) -> Figure | None:
    """What planning reaches, against the steps that perfect play needs: methods in full, with random beside them."""
    panels, legend = [], {}
    groups = planning_groups(results)
    for world, n, k in dict.fromkeys((key[1], key[2], key[3]) for key in groups):
        lines = []
        for (method, *where, name), runs in groups.items():
            if where != [world, n, k] or name != "search":
                continue
            parts = {method: ([run.unseen for run in runs], f"m-{method}" if method in PAPER_METHODS else "m-other-0")}
            if method == "howm":
                parts["random actions"] = ([run.references.get("random", {}) for run in runs], "control")
            for title, (found, style) in parts.items():
                shown = {at: [y for part in found if (y := success(part, b)) is not None] for b, at in REACH.items()}
                points = tuple((float(at), mean(ys)) for at, ys in shown.items() if ys)
                if points:
                    named = runs[0].method_title if title == method else title
                    lines.append(Line(named, style, points))
                    legend[named] = style
        if lines:
            panels.append(draw(Chart(f"{_world_title(groups, world)}, N = {n}", "optimal steps", "success, %",
                                     tuple(lines), tuple(map(float, REACH.values())), log_x=True,
                                     y_range=(0, 100))))  # fmt: skip
    note = "Goals that the planner search reaches in unseen scenes from goal pictures alone, by the steps they need."
    return Figure("Success by optimal length", note, tuple(panels), tuple(legend.items())) if panels else None


def _world_title(groups: dict[Key, list[PlanResult]], world: str) -> str:
    return next(runs[0].world_title for key, runs in groups.items() if key[1] == world)


def _by_cost(results: Results) -> Figure | None:
    kinds: dict[str, Measure] = {"CPU minutes": minutes, "peak memory, MB": megabytes}
    panels, everything = [], []
    for title, runs in _studies(results, 2):
        for name, measure in kinds.items():
            lines = tuple(_lines(results, runs, measure))
            panels.append(draw(Chart(f"{title}, {name}", "objects in the library", name, lines, _sizes(runs),
                                     log_x=True)))  # fmt: skip
        everything += runs
    note = "Of training, on CPU cores; what the machine did beside it is not known."
    return Figure("Cost by library size", note, tuple(panels), _legend(results, everything)) if panels else None


def _curve(run: RunResult) -> tuple[tuple[float, float | None], ...]:
    """Held-out loss by step, broken where the representation is finished: the two losses cannot be compared.

    Where the first of them is no distance but a likelihood, the error of the reconstruction stands for it.
    """
    represent = _phase(run)
    rows = [row for row in run.curve if row["step"] <= represent]
    name = "held_out_loss" if all(row["held_out_loss"] > 0 for row in rows) else "held_out_reconstruction"
    before = [(row["step"], row.get(name)) for row in rows]
    after = [(row["step"], row["held_out_loss"]) for row in run.curve if row["step"] > represent]
    return (*before, *([(represent, None)] if before and after else []), *after)


def _phase(run: RunResult) -> int:
    represent = run.config.get("represent", {})
    return int(represent.get("steps", 0)) * int(represent.get("starts", 1))


def _curve_chart(title: str, lines: Sequence[tuple[str, str, RunResult]]) -> str:
    drawn = tuple(Line(name, style, _curve(run), "none") for name, style, run in lines)
    last = max(1, *(point[0] for line in drawn for point in line.points))
    phases = tuple(sorted({_phase(run) for _, _, run in lines} - {0}))
    return draw(Chart(title, "step", "held-out loss", drawn, tuple(ticks(0, last, False)), log_y=True, rules=phases))


def _curves(results: Results) -> Figure | None:
    runs = [run for run in results.finished() if run.curve]
    sizes = sorted({run.n for run in runs})
    panels = []
    for env, k, method in dict.fromkeys((run.world, run.k, run.method) for run in runs):
        some = [run for run in runs if (run.world, run.k, run.method) == (env, k, method)]
        title = f"{results.study_title(env, k)}, {results.method_title(method)}"
        lines = [(f"N = {run.n}, seed {run.seed}", f"size-{sizes.index(run.n) % SIZES}", run) for run in some]
        panels.append(_curve_chart(title, lines))
    note = "Loss on held-out training episodes."
    if any(_phase(run) for run in runs):
        note += (
            " At an upright line the representation ends and the transition begins (a line for each length, where runs "
            "differ in it)."
        )
    if any(row["held_out_loss"] <= 0 for run in runs for row in run.curve if row["step"] <= _phase(run)):
        note += " Where the first loss is a likelihood, the error of reconstructions is shown."
    legend = tuple((f"N = {n}", f"size-{i % SIZES}") for i, n in enumerate(sizes))
    return Figure("Learning curves", note, tuple(panels), legend) if panels else None


def _negatives(results: Results) -> Figure | None:
    groups = negative_groups(results)
    marks = {"controlled": "dot", "uncontrolled": "halo"}  # both are seen where they are equal
    panels = []
    for env in dict.fromkeys(env for env, _, _ in groups):
        for pool, measure in product(POOLS, ("h1", "mrr")):
            name = {"h1": "H@1", "mrr": "MRR"}[measure]
            lines = []
            for style, mark in marks.items():
                runs = [run for (world, _, way), some in groups.items() if (world, way) == (env, style)
                        for run in ended(some)]  # fmt: skip
                lines.append(Line(style, style, _against_n(runs, score(pool, "5", measure)), mark))
            ticks = tuple(sorted({float(n) for world, n, _ in groups if world == env}))
            title = f"{results.world_title(env)}, {name}, {POOLS[pool]}"
            panels.append(draw(Chart(title, "objects in the library", f"{name}, %", tuple(lines), ticks, log_x=True,
                                     y_range=(0, 100))))  # fmt: skip
        curves = [
            (f"{way}, N = {n}, seed {run.seed}", way, run)
            for (world, n, way), some in groups.items()
            for run in ended(some)
            if world == env and run.curve
        ]
        if curves:
            panels.append(_curve_chart(f"{results.world_title(env)}, held-out loss", curves))
    if not panels:
        return None
    note = (
        "Σ_N-CSWM after five steps, with half of the negatives from the same scene (controlled, dots) and without "
        "(uncontrolled, rings)."
    )
    return Figure("Controlled negatives", note, tuple(panels), tuple((style, style) for style in marks))
