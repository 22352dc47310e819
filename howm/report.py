"""One page that shows all of a folder's results: tables, charts, pictures, and how each number was made.

It needs nothing from elsewhere and holds no clock: the same results give the same bytes.
"""

import base64
from collections.abc import Collection, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import product
from math import comb
from pathlib import Path
from statistics import mean
from typing import Any

from howm.charts import Chart, Line, Strip, draw, draw_strips, ticks
from howm.collected import Measure, Result, Results, ended, minutes, name_of, read_results, score, value
from howm.errors import HowmError
from howm.models.methods import METHODS
from howm.published import published
from howm.scenes import SceneSplit, seeded_split
from howm.storage import file_hash, load_dataset, written_whole
from howm.table import FORMATS, Cell, Column, Table, prose, to_html
from howm.tables import ENCODER, POOLS, TITLES, control, negative_groups, report_tables, sizes_of
from howm.version import __version__


@dataclass(frozen=True)
class Figure:
    """Panels under one heading, and what their colours mean: names and styles."""

    title: str
    note: str
    panels: tuple[str, ...]
    legend: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Picture:
    title: str
    note: str
    png: bytes

    @property
    def source(self) -> str:
        return f"data:image/png;base64,{base64.b64encode(self.png).decode()}"


def write_report(folder: Path, out: Path) -> list[Path]:
    """The page and, beside it, its tables as CSV, JSON, Markdown and LaTeX: all of them or none.

    Those of an earlier report are replaced. Other files of these names are not.
    """
    if out.suffix != ".html":
        raise HowmError(f"{out} is no name of a page; give one that ends in .html")
    beside = {out.with_suffix(f".{name}"): render for name, render in FORMATS.items()}
    taken = [path for path in beside if path.exists()]
    if taken and not _is_report(out):
        raise HowmError(f"{taken[0]} is there and not of a report; move it away, or give the page another name")
    results = read_results(folder)
    tables = report_tables(results)
    splits = certificate_table(folder, results)
    if splits.rows:
        tables["Splits"] = [splits]
    files = {out: _page(folder, results, tables)}
    listed = [table for some in tables.values() for table in some]
    files |= {path: render(listed) for path, render in beside.items()}
    with ExitStack() as stack:
        for path, text in reversed(files.items()):  # what is entered last, the page, takes its place first
            stack.enter_context(written_whole(path)).write_text(text, encoding="utf-8")
    return list(files)


def _is_report(page: Path) -> bool:
    """Whether a page was written here: by the line above its heading."""
    return page.is_file() and '<p class="eyebrow">howm ' in page.read_text(encoding="utf-8", errors="replace")


def _page(folder: Path, results: Results, tables: dict[str, list[Table]]) -> str:
    try:
        import jinja2
        import matplotlib  # noqa: F401  # for the pictures: said before any work
        from markupsafe import Markup
    except ImportError as error:
        raise HowmError(f"a report needs {error.name}, which is not installed; pip install 'howm[viz]'") from error
    here = Path(__file__).parent
    loader = jinja2.FileSystemLoader(here)
    environment = jinja2.Environment(loader=loader, autoescape=True, trim_blocks=True, lstrip_blocks=True)
    pictures, unseen = draw_pictures(folder, results)
    return environment.get_template("report.html").render(
        version=__version__,
        style=(here / "report.css").read_text(encoding="utf-8"),
        summary=[Markup(prose(text.replace(" %", "\u00a0%"))) for text in summary(results)],
        glance=glance(results),
        sections={
            name: [to_html(table, _anchor(name, i)) for i, table in enumerate(some)] for name, some in tables.items()
        },
        figures=draw_figures(results),
        prose=lambda text: Markup(prose(text)),
        pictures=pictures,
        unseen=unseen,
        missing=missing(results),
        runs=provenance(results),
        anchor=_anchor,
    )


def _anchor(name: str, place: int = 0) -> str:
    words = "".join(letter if letter.isalnum() else " " for letter in name.lower()).split()
    return "-".join(words) + (f"-{place}" if place else "")


# What the page says of all results together.


def summary(results: Results) -> tuple[str, str]:
    """What is here, and what it shows."""
    everything = (*results.grid, *results.variants)
    if not everything:
        return f"No run in Shapes or Rush Hour is here; in other worlds: {_count(len(results.others), 'run')}.", ""
    done = ended(everything)
    sizes = sorted({run["n"] for run in everything})
    worlds = " and ".join(TITLES[env] for env in TITLES if any(run["env"] == env for run in everything))
    library = f"of {sizes[0]} to {sizes[-1]} objects" if len(sizes) > 1 else f"of {sizes[0]} objects"
    one = len(done) == 1
    what = _count(len({run["method"] for run in done if "variant" not in run}), "method")
    changed = len({run["variant"] for run in done if "variant" in run})
    what += f" and {_count(changed, 'variant')}" if changed else ""
    first = (
        f"{len(done)} run{'' if one else 's'} of {what} in {worlds}, "
        f"with libraries {library}, {'is' if one else 'are'} measured here"
    )
    for status, words in (("OM", "ran out of memory"), ("failed", "failed")):
        count = sum(run["status"] == status for run in everything)
        first += f"; {count} {words}" if count else ""
    return f"{first}.", _finding(results.finished())


def _finding(done: Sequence[Result]) -> str:
    """The method whose worst setting is best, among the settings that the methods have in common."""
    measure = score("eval_hard", "5")
    settings: dict[str, dict[tuple[str, int, int], list[Result]]] = {}
    for run in done:
        if measure(run) is not None and run["n"] > run["k"]:
            settings.setdefault(run["method"], {}).setdefault((run["env"], run["n"], run["k"]), []).append(run)
    if not settings:
        return "None of them has been measured five steps ahead in unseen scenes."
    by_number = sorted(settings, key=lambda method: -len(settings[method]))
    compared, common = [by_number[0]], {*settings[by_number[0]]}
    for method in by_number[1:]:
        if both := common & settings[method].keys():
            compared, common = [*compared, method], both

    def worst(method: str, some: Collection[tuple[str, int, int]]) -> float:
        return min(_mean(settings[method][setting], measure) or 0 for setting in some)

    best, *others = sorted(compared, key=lambda method: -round(worst(method, common), 1))
    text = f"Five steps ahead in unseen scenes, {METHODS[best].title} has an MRR of {worst(best, common):.1f} % or more"
    text += f" in the hard pool in {'the ' * bool(others)}{_count(len(common), 'setting')} (world, N and K)"
    if others:
        among = "" if len(compared) == len(settings) else f"{_count(len(compared))} of "
        text += f" that {among}the {_count(len(settings), 'method')} have in common"
    runs = [run for method in compared for setting in common for run in settings[method][setting]]
    still = [y for run in runs if (y := control("do_nothing", measure)(run)) is not None]
    text += f", where predicting no change has {max(still):.1f} % at most" if still else ""
    text += f"; next is {METHODS[others[0]].title} with {worst(others[0], common):.1f} %" if others else ""
    if len(settings[best]) > len(common):
        whole = _count(len(settings[best]), "setting")
        text += f". In all its {whole} {METHODS[best].title} has {worst(best, settings[best]):.1f} % or more"
    return f"{text}."


def glance(results: Results) -> str | None:
    """All methods in one look: five steps ahead, in unseen scenes of five objects."""
    strips = []
    runs = [run for env, some in _panels(results) for run in some if run["n"] > run["k"]]
    for method in METHODS:
        own = [run for run in runs if run["method"] == method]
        cells = dict.fromkeys((run["env"], run["n"]) for run in own)
        found = [
            _mean([run for run in own if (run["env"], run["n"]) == cell], score("eval_hard", "5")) for cell in cells
        ]
        theirs = [y for env in results.worlds() for n, y in _papers(env, method) if n > 5 and y is not None]
        dots = tuple(y for y in found if y is not None)
        if dots or (theirs and method != "howm-paper"):
            strips.append(Strip(METHODS[method].title, f"m-{method}", dots, tuple(theirs)))
    settings = dict.fromkeys((run["env"], run["n"]) for run in runs)
    found = [_nothing([run for run in runs if (run["env"], run["n"]) == one], "eval_hard", "5") for one in settings]
    strips.append(Strip("do nothing", "control", tuple(y for y in found if y is not None)))
    return draw_strips("MRR in the hard pool after five steps", strips) if runs else None


def _count(number: int, noun: str = "") -> str:
    words = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
    word = words[number] if number < len(words) else str(number)
    return f"{word} {noun}{'' if number == 1 else 's'}" if noun else word


def missing(results: Results) -> list[str]:
    """What a reader may look for in vain."""
    said = [f"{TITLES[env]}: no run with five objects in a scene." for env in TITLES if not results.paper(env)]
    said += [text for env in results.worlds() if (text := _not_run(results, env))]
    said += [] if results.negatives else ["Negative sampling: there is no folder negatives."]
    said += [] if results.ablation else ["Ablation: there is no folder ablation."]
    said += [] if results.transfer else ["Other numbers of objects: there is no folder transfer."]
    bare = sum("curve" not in run or not run["curve"] for run in results.finished())
    said += [f"Learning curves: {bare} of {len(results.finished())} results do not have one."] if bare else []
    masked = sum("segmentation" in run for run in results.finished())
    said += [] if masked else ["Segmentation: no result of the grid has it."]
    return said


def _not_run(results: Results, env: str) -> str:
    """The cells of the tables of a world that are empty, methods that lack the same sizes together."""
    lacking: dict[tuple[int, ...], list[str]] = {}
    for method in METHODS:
        sizes = sizes_of(env, results.paper(env))
        lacking.setdefault(tuple(n for n in sizes if not results.of(env, 5, n, method)), []).append(method)
    parts = [f"N = {_and(sizes)}: {_and(methods)}" for sizes, methods in lacking.items() if sizes]
    return f"{TITLES[env]}, not run at {'; at '.join(parts)}." if parts else ""


def _and(things: Sequence[object]) -> str:
    *most, last = map(str, things)
    return f"{', '.join(most)} and {last}" if most else last


# Charts.

NOTHING = f"do nothing ({ENCODER}'s encoder)"
ABOUT_NOTHING = (
    f"Doing nothing is {ENCODER}'s own encoding of the first frame; it is missing where {ENCODER} was not run."
)


def draw_figures(results: Results) -> list[Figure]:
    figures = [_by_size(results), _by_steps(results), _by_cost(results), *_curves(results), _negatives(results)]
    return [figure for figure in figures if figure is not None]


def _methods(runs: Sequence[Result]) -> list[str]:
    return [method for method in METHODS if any(run["method"] == method for run in runs)]


def _legend(runs: Sequence[Result], *more: tuple[str, str]) -> tuple[tuple[str, str], ...]:
    return (*((METHODS[method].title, f"m-{method}") for method in _methods(runs)), *more)


def _mean(runs: Sequence[Result], measure: Measure) -> float | None:
    values = [found for run in runs if (found := measure(run)) is not None]
    return mean(values) if values else None


def _against_n(runs: Sequence[Result], measure: Measure) -> tuple[tuple[float, float | None], ...]:
    found = {n: _mean([run for run in runs if run["n"] == n], measure) for n in sorted({run["n"] for run in runs})}
    return tuple((n, y) for n, y in found.items() if y is not None)


def _lines(runs: Sequence[Result], measure: Measure) -> list[Line]:
    """A line for each method, over the sizes of the library."""
    return [
        Line(METHODS[method].title, f"m-{method}", _against_n([r for r in runs if r["method"] == method], measure))
        for method in _methods(runs)
    ]


def _sizes(runs: Sequence[Result]) -> tuple[float, ...]:
    """Sizes to name on an axis of powers; 30 would stand on the toes of 20."""
    return tuple(n for n in sorted({run["n"] for run in runs}) if n != 20 or len({run["n"] for run in runs}) < 5)


def _panels(results: Results) -> Iterator[tuple[str, list[Result]]]:
    """The worlds, with their runs of five objects in a scene."""
    for env in results.worlds():
        yield env, ended(results.of(env, k=5))


def _by_size(results: Results) -> Figure | None:
    panels = []
    for env, runs in _panels(results):
        for pool, name in POOLS.items():
            lines = _lines(runs, score(pool, "5"))
            if pool == "eval":
                lines += [
                    Line(f"{METHODS[method].title} in the paper", f"m-{method} theirs", points, "ring")
                    for method in METHODS
                    if method != "howm-paper" and (points := _papers(env, method))
                ]
            else:
                sizes = sorted({run["n"] for run in runs})
                still = [(n, _nothing([run for run in runs if run["n"] == n], pool, "5")) for n in sizes]
                lines.append(Line(NOTHING, "control", tuple(still)))
            title = f"{TITLES[env]}, {name}"
            panels.append(draw(Chart(title, "objects in the library", "MRR, %", tuple(lines),
                                     _sizes(runs), log_x=True, y_range=(0, 100))))  # fmt: skip
    note = (
        "MRR on unseen scenes after five steps. At N = K = 5 nothing is unseen. Rings are the paper's numbers. "
        f"{ABOUT_NOTHING}"
    )
    everything = [run for _, runs in _panels(results) for run in runs]
    legend = _legend(everything, (NOTHING, "control"))
    return Figure("MRR by library size", note, tuple(panels), legend) if panels else None


def _papers(env: str, method: str) -> tuple[tuple[float, float | None], ...]:
    found = [(n, published(env, method, n, 5)) for n in (5, 10, 20, 30)]
    return tuple((n, theirs.mrr_5) for n, theirs in found if theirs is not None)


def _by_steps(results: Results) -> Figure | None:
    panels = []
    everything = [run for _, runs in _panels(results) for run in runs]
    for env, runs in _panels(results):
        for pool, name in POOLS.items():
            for n in sorted({run["n"] for run in results.paper(env)}):
                some = [run for run in runs if run["n"] == n]
                steps = sorted({int(k) for run in some for k in run[pool]})
                lines = []
                for method in _methods(some):
                    own = [run for run in some if run["method"] == method]
                    found = [(k, _mean(own, score(pool, str(k)))) for k in steps]
                    points = tuple((float(k), y) for k, y in found if y is not None)
                    lines.append(Line(METHODS[method].title, f"m-{method}", points))
                still = [(float(k), _nothing(some, pool, str(k))) for k in steps]
                lines.append(Line(NOTHING, "control", tuple((k, y) for k, y in still if y is not None)))
                panels.append(draw(Chart(f"{TITLES[env]}, N = {n}, {name}", "steps", "MRR, %", tuple(lines),
                                         tuple(steps), log_x=True, y_range=(0, 100))))  # fmt: skip
    note = f"MRR on unseen scenes. {ABOUT_NOTHING}"
    legend = _legend(everything, (NOTHING, "control"))
    return Figure("MRR by steps", note, tuple(panels), legend) if panels else None


def _nothing(runs: Sequence[Result], pool: str, steps: str) -> float | None:
    """What predicting no change has, seen through one and the same encoder."""
    return _mean([run for run in runs if run["method"] == ENCODER], control("do_nothing", score(pool, steps)))


def _by_cost(results: Results) -> Figure | None:
    kinds: dict[str, Measure] = {"CPU minutes": minutes, "peak memory, MB": value("peak_memory_mb")}
    panels = []
    everything = [run for _, runs in _panels(results) for run in runs]
    for env, runs in _panels(results):
        for name, measure in kinds.items():
            lines = tuple(_lines(runs, measure))
            title = f"{TITLES[env]}, {name}"
            panels.append(draw(Chart(title, "objects in the library", name, lines, _sizes(runs), log_x=True)))
    note = "Of training, on CPU cores; what the machine did beside it is not known."
    return Figure("Cost by library size", note, tuple(panels), _legend(everything)) if panels else None


def _curve(run: Result) -> tuple[tuple[float, float | None], ...]:
    """Held-out loss by step, broken where the representation is finished: the two losses cannot be compared.

    Where the first of them is no distance but a likelihood, the error of the reconstruction stands for it.
    """
    represent = _phase(run)
    rows = [row for row in run["curve"] if row["step"] <= represent]
    name = "held_out_loss" if all(row["held_out_loss"] > 0 for row in rows) else "held_out_reconstruction"
    before = [(row["step"], row.get(name)) for row in rows]
    after = [(row["step"], row["held_out_loss"]) for row in run["curve"] if row["step"] > represent]
    return (*before, *([(represent, None)] if before and after else []), *after)


def _phase(run: Result) -> int:
    return int(value("config", "represent", "steps")(run) or 0)


def _curve_chart(title: str, lines: Sequence[tuple[str, str, Result]]) -> str:
    drawn = tuple(Line(name, style, _curve(run), "none") for name, style, run in lines)
    last = max(point[0] for line in drawn for point in line.points)
    phases = tuple(sorted({_phase(run) for _, _, run in lines} - {0}))
    return draw(Chart(title, "step", "held-out loss", drawn, tuple(ticks(0, last, False)), log_y=True, rules=phases))


def _curves(results: Results) -> list[Figure]:
    runs = [run for run in results.finished() if run.get("curve")]
    sizes = sorted({run["n"] for run in runs})
    panels = []
    for env, k, method in dict.fromkeys((run["env"], run["k"], run["method"]) for run in runs):
        some = [run for run in runs if (run["env"], run["k"], run["method"]) == (env, k, method)]
        title = f"{TITLES[env]}, {METHODS[method].title}" + ("" if k == 5 else f", K = {k}")
        lines = [(f"N = {run['n']}, seed {run['seed']}", f"size-{sizes.index(run['n'])}", run) for run in some]
        panels.append(_curve_chart(title, lines))
    note = (
        "Loss on held-out training episodes. At an upright line the representation ends and the transition begins "
        "(a line for each length, where runs differ in it); of MONet, whose first loss is a likelihood, the error of "
        "its reconstructions is shown."
    )
    legend = tuple((f"N = {n}", f"size-{i}") for i, n in enumerate(sizes))
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
            panels.append(draw(Chart(f"{TITLES[env]}, {name}, {POOLS[pool]}", "objects in the library", f"{name}, %",
                                     tuple(lines), ticks, log_x=True, y_range=(0, 100))))  # fmt: skip
        curves = [
            (f"{way}, N = {n}, seed {run['seed']}", way, run)
            for (world, n, way), some in groups.items()
            for run in ended(some)
            if world == env and run.get("curve")
        ]
        if curves:
            panels.append(_curve_chart(f"{TITLES[env]}, held-out loss", curves))
    if not panels:
        return Figure("Controlled negatives", "Missing: there is no folder negatives with runs of Σ_N-CSWM.", ())
    note = (
        "Σ_N-CSWM after five steps, with half of the negatives from the same scene (controlled, dots) and without "
        "(uncontrolled, rings)."
    )
    return Figure("Controlled negatives", note, tuple(panels), tuple((style, style) for style in marks))


# Pictures of what was learned.


def draw_pictures(folder: Path, results: Results) -> tuple[list[Picture], list[str]]:
    """Slots, bindings and predictions of one HOWM in each world, and why there are none of the others."""
    from howm.checkpoint import load_checkpoint, rebuild
    from howm.figures import as_png, figures
    from howm.results import fresh_episodes

    pictures, unseen = [], []
    for env in TITLES:
        found = _model(folder, results, env)
        if found is None:
            continue
        path, whose = found
        try:
            checkpoint = load_checkpoint(path)
            model = rebuild(checkpoint)
            data = checkpoint.about["data"]
            drawn = figures(model, fresh_episodes(checkpoint, 10, 0, 100).unseen, 0, 10)
        except HowmError as error:
            unseen.append(f"{TITLES[env]}: {error}.")
            continue
        world = f"{TITLES[env]}, N = {data['n']}, K = {data['k']}"
        scene = "an unseen scene" if data["n"] > data["k"] else "the one scene that exists"
        texts = {
            "rollout": f"Ten steps in {scene}: the truth above, below what the model predicts from the first frame and "
            "the actions alone.",
            "binding": "Two frames, their slots, the binding M of actions to slots, the bound action, and the "
            "predicted and the true state lifted to all library objects.",
        }
        pictures += [
            Picture(f"{world}, {name}", f"{texts[name]} {whose}", as_png(drawn[name]))
            for name in texts
            if name in drawn
        ]
    return pictures, unseen


def _model(folder: Path, results: Results, env: str) -> tuple[Path, str] | None:
    """The checkpoint of a HOWM of this folder, or of one of the package for the same world, and whose it is."""
    from howm.checkpoint import find_checkpoint, load_checkpoint, shipped

    runs = ended(results.of(env, method="howm"))
    for run in sorted(runs, key=lambda run: (run["n"] == run["k"], run["k"] != 5, run["n"], run["seed"])):
        name = f"{env}-n{run['n']}-k{run['k']}/howm-seed{run['seed']}"
        if (folder / "runs" / name).is_dir():
            return find_checkpoint(folder / "runs" / name), f"Of the run {name}."
    worlds = {(run["n"], run["k"]) for run in runs}
    for name in shipped():
        data = load_checkpoint(find_checkpoint(name)).about["data"]
        if data["world"] == env and (data["n"], data["k"]) in worlds:
            note = f"Of the model {name} that comes with the package: the runs of these results are not in this folder."
            return find_checkpoint(name), note
    return None


# The splits, and where numbers come from.


def certificate_table(folder: Path, results: Results) -> Table:
    """What the split of each world and seed was: read from its data, or drawn again from the seed; else unknown."""
    columns = (
        *(Column("world"), Column("N"), Column("K"), Column("data seed"), Column("scenes in all")),
        *(Column("training", "scenes"), Column("evaluation", "scenes"), Column("in both", "scenes")),
        *(Column("training", "uneven by"), Column("evaluation", "uneven by")),
        *(Column("violations"), Column("hash of the split", code=True), Column("from")),
    )
    rows: dict[tuple[Cell, ...], None] = {}
    order = list(TITLES)
    alike = {
        (order.index(run["env"]), run["n"], run["k"], _data_seed(run) or 0, str(run["data"]),
         run.get("train_scenes") or 0, run["scenes"]): run
        for run in ended((*results.grid, *results.variants))
    }  # fmt: skip
    for _, run in sorted(alike.items(), key=lambda pair: pair[0]):
        split, source = _split(folder, run)
        known: tuple[Cell, ...]
        head = (TITLES[run["env"]], run["n"], run["k"], _data_seed(run), f"{comb(run['n'], run['k']):,}")
        if split is None:
            known = (run.get("train_scenes"), run["scenes"], None, None, None, None, _recorded(run))
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
    return Table("Training and evaluation scenes", note, columns, tuple(rows), 4)


def _data_seed(run: Result) -> int | None:
    seed: int | None = run["data"].get("seed")
    return seed


def _recorded(run: Result) -> str | None:
    """The hash of the split, which older results do not have."""
    found: str | None = run["data"].get("split")
    return found


def _split(folder: Path, run: Result) -> tuple[SceneSplit | None, str]:
    """The split that a result was measured with, and where it is from."""
    n, k, seed, scenes = run["n"], run["k"], _data_seed(run), run.get("train_scenes")
    path = folder / "data" / f"{run['env']}-n{n}-k{k}-seed{seed}.h5"
    if path.is_file() and file_hash(path) == run["data"].get("hash"):
        return load_dataset(path).split, "its data"
    if seed is None:
        return None, "unknown"
    split = seeded_split(n, k, seed, **({"train_scenes": scenes} if scenes and n > k else {}))
    if _recorded(run) is not None:
        return (split, "its seed") if split.hash == _recorded(run) else (None, "unknown")
    # Of consecutive scenes there are N, so that more of them were drawn as they are by default.
    drawn = n == k or run["scenes"] > n
    agrees = run["scenes"] == len(split.eval) and scenes in (None, len(split.train))
    return (split, "its seed, unchecked") if drawn and agrees else (None, "unknown")


def provenance(results: Results) -> list[dict[str, Any]]:
    """How each number was made."""
    found = []
    special = [(f"variant, {run['variant']}", run) for run in results.variants]
    special += [(f"ablation, {name_of(run)}", run) for run in results.ablation]
    special += [("few scenes", run) for run in results.few_scenes]
    special += [(f"negatives, {name_of(run)}", run) for run in results.negatives]
    special += [(f"transfer, {name}", run) for name, run in results.transfer]
    special += [("another world", run) for run in results.others]
    for where, run in [*(("", run) for run in results.grid), *special]:
        versions, data = run.get("versions", {}), run.get("data", {})
        facts = {
            "status": run["status"],
            "reason": run.get("reason"),
            "preset": run.get("preset"),
            "steps": f"{run['steps']:,}, best at {run['best_step']:,}" if "best_step" in run else None,
            "seconds": f"{run['train_seconds']:,.0f}, of a CPU {run['train_cpu_seconds']:,.0f}"
            if "train_cpu_seconds" in run
            else None,
            "references": f"{run['pool']:,} of {run['scenes']} scenes; {run['unseen']}" if "pool" in run else None,
            "data": f"{data.get('hash')}, seed {data.get('seed')}" if data else None,
            "commit": versions.get("commit", "not recorded"),
            "versions": ", ".join(f"{name} {text}" for name, text in versions.items() if name != "commit") or None,
        }
        title = f"{run['method']}, {TITLES.get(run['env'], run['env'])}, N={run['n']}, K={run['k']}, seed {run['seed']}"
        found.append({
            "title": title + (f" ({where})" if where else ""),
            "facts": {name: text for name, text in facts.items() if text is not None},
            "config": dict(_flat(run.get("config", {}), "")),
        })  # fmt: skip
    return found


def _flat(values: dict[str, Any], prefix: str) -> Iterator[tuple[str, Any]]:
    for name, entry in values.items():
        if isinstance(entry, dict):
            yield from _flat(entry, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", str(entry).lower() if isinstance(entry, bool) else entry
