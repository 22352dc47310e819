"""The charts of the page."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from statistics import mean

from howm.experiments.plan import PAPER_METHODS
from howm.report.charts import OTHERS, SIZES, Chart, Line, Strip, css, draw, draw_strips, ticks
from howm.report.published import published
from howm.report.results_folder import Measure, Results, control, ended, megabytes, minutes, score
from howm.report.tables.beyond import negative_groups
from howm.report.tables.entries import ENCODER, POOLS
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
    """All methods in one look: five steps ahead, in unseen scenes of five objects."""
    strips = []
    runs = [run for env, some in _panels(results) for run in some if run.n > run.k]
    for method in results.methods():
        own = [run for run in runs if run.method == method]
        cells = dict.fromkeys((run.world, run.n) for run in own)
        found = [_mean([run for run in own if (run.world, run.n) == cell], score("hard", "5")) for cell in cells]
        theirs = [y for env in results.worlds() for n, y in _papers(env, method) if n > 5 and y is not None]
        dots = tuple(y for y in found if y is not None)
        if dots or (theirs and method != "howm-paper"):
            strips.append(Strip(results.method_title(method), style_of(results, method), dots, tuple(theirs)))
    settings = dict.fromkeys((run.world, run.n) for run in runs)
    found = [_nothing([run for run in runs if (run.world, run.n) == one], "hard", "5") for one in settings]
    strips.append(Strip("do nothing", "control", tuple(y for y in found if y is not None)))
    return draw_strips("MRR in the hard pool after five steps", strips) if runs else None


# Charts.

NOTHING = f"do nothing ({ENCODER}'s encoder)"
ABOUT_NOTHING = (
    f"Doing nothing is {ENCODER}'s own encoding of the first frame; it is missing where {ENCODER} was not run."
)


def draw_figures(results: Results) -> list[Figure]:
    figures = [_by_size(results), _by_steps(results), _by_optimal_steps(results), _by_cost(results)]
    figures += [*_curves(results), _negatives(results)]
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


def _panels(results: Results) -> Iterator[tuple[str, list[RunResult]]]:
    """The worlds, with their runs of five objects in a scene."""
    for env in results.worlds():
        yield env, ended(results.of(env, k=5))


def _by_size(results: Results) -> Figure | None:
    panels = []
    for env, runs in _panels(results):
        for pool, name in POOLS.items():
            lines = _lines(results, runs, score(pool, "5"))
            if pool == "paper":
                lines += [
                    Line(f"{results.method_title(method)} in the paper", f"m-{method} theirs", points, "ring")
                    for method in PAPER_METHODS
                    if method != "howm-paper" and (points := _papers(env, method))
                ]
            else:
                sizes = sorted({run.n for run in runs})
                still = [(n, _nothing([run for run in runs if run.n == n], pool, "5")) for n in sizes]
                lines.append(Line(NOTHING, "control", tuple(still)))
            title = f"{results.world_title(env)}, {name}"
            panels.append(draw(Chart(title, "objects in the library", "MRR, %", tuple(lines),
                                     _sizes(runs), log_x=True, y_range=(0, 100))))  # fmt: skip
    note = (
        "MRR on unseen scenes after five steps. At N = K = 5 nothing is unseen. Rings are the paper's numbers. "
        f"{ABOUT_NOTHING}"
    )
    everything = [run for _, runs in _panels(results) for run in runs]
    legend = _legend(results, everything, (NOTHING, "control"))
    return Figure("MRR by library size", note, tuple(panels), legend) if panels else None


def _papers(env: str, method: str) -> tuple[tuple[float, float | None], ...]:
    found = [(n, published(env, method, n, 5)) for n in (5, 10, 20, 30)]
    return tuple((n, theirs.mrr_5) for n, theirs in found if theirs is not None)


def _by_steps(results: Results) -> Figure | None:
    panels = []
    everything = [run for _, runs in _panels(results) for run in runs]
    for env, runs in _panels(results):
        for pool, name in POOLS.items():
            for n in sorted({run.n for run in results.paper(env)}):
                some = [run for run in runs if run.n == n]
                steps = sorted({int(k) for run in some for k in run.scores["unseen"][pool]})
                lines = []
                for method in _methods(results, some):
                    own = [run for run in some if run.method == method]
                    found = [(k, _mean(own, score(pool, str(k)))) for k in steps]
                    points = tuple((float(k), y) for k, y in found if y is not None)
                    lines.append(Line(results.method_title(method), style_of(results, method), points))
                still = [(float(k), _nothing(some, pool, str(k))) for k in steps]
                lines.append(Line(NOTHING, "control", tuple((k, y) for k, y in still if y is not None)))
                title = f"{results.world_title(env)}, N = {n}, {name}"
                panels.append(draw(Chart(title, "steps", "MRR, %", tuple(lines), tuple(steps), log_x=True,
                                         y_range=(0, 100))))  # fmt: skip
    note = f"MRR on unseen scenes. {ABOUT_NOTHING}"
    legend = _legend(results, everything, (NOTHING, "control"))
    return Figure("MRR by steps", note, tuple(panels), legend) if panels else None


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


def _nothing(runs: Sequence[RunResult], pool: Pool, steps: str) -> float | None:
    """What predicting no change has, seen through one and the same encoder."""
    return _mean([run for run in runs if run.method == ENCODER], control("do_nothing", pool, steps))


def _by_cost(results: Results) -> Figure | None:
    kinds: dict[str, Measure] = {"CPU minutes": minutes, "peak memory, MB": megabytes}
    panels = []
    everything = [run for _, runs in _panels(results) for run in runs]
    for env, runs in _panels(results):
        for name, measure in kinds.items():
            lines = tuple(_lines(results, runs, measure))
            title = f"{results.world_title(env)}, {name}"
            panels.append(draw(Chart(title, "objects in the library", name, lines, _sizes(runs), log_x=True)))
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
    return int(run.config.get("represent", {}).get("steps", 0))


def _curve_chart(title: str, lines: Sequence[tuple[str, str, RunResult]]) -> str:
    drawn = tuple(Line(name, style, _curve(run), "none") for name, style, run in lines)
    last = max(1, *(point[0] for line in drawn for point in line.points))
    phases = tuple(sorted({_phase(run) for _, _, run in lines} - {0}))
    return draw(Chart(title, "step", "held-out loss", drawn, tuple(ticks(0, last, False)), log_y=True, rules=phases))


def _curves(results: Results) -> list[Figure]:
    runs = [run for run in results.finished() if run.curve]
    sizes = sorted({run.n for run in runs})
    panels = []
    for env, k, method in dict.fromkeys((run.world, run.k, run.method) for run in runs):
        some = [run for run in runs if (run.world, run.k, run.method) == (env, k, method)]
        title = f"{results.world_title(env)}, {results.method_title(method)}" + ("" if k == 5 else f", K = {k}")
        lines = [(f"N = {run.n}, seed {run.seed}", f"size-{sizes.index(run.n) % SIZES}", run) for run in some]
        panels.append(_curve_chart(title, lines))
    note = (
        "Loss on held-out training episodes. At an upright line the representation ends and the transition begins "
        "(a line for each length, where runs differ in it); of MONet, whose first loss is a likelihood, the error of "
        "its reconstructions is shown."
    )
    legend = tuple((f"N = {n}", f"size-{i % SIZES}") for i, n in enumerate(sizes))
    return [Figure("Learning curves", note, tuple(panels), legend)] if panels else []


def _negatives(results: Results) -> Figure:
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
        return Figure("Controlled negatives", "Missing: there is no folder negatives with runs of Σ_N-CSWM.", ())
    note = (
        "Σ_N-CSWM after five steps, with half of the negatives from the same scene (controlled, dots) and without "
        "(uncontrolled, rings)."
    )
    return Figure("Controlled negatives", note, tuple(panels), tuple((style, style) for style in marks))
