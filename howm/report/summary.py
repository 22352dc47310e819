"""What the page says of all results together."""

from collections.abc import Collection, Sequence

from howm.report.figures import _mean
from howm.report.published import PAPER_WORLDS
from howm.report.results_folder import Results, control, ended, score
from howm.report.tables.entries import sizes_of
from howm.runs.result import RunResult

# What the page says of all results together.


def summary(results: Results) -> tuple[str, str]:
    """What is here, and what it shows."""
    everything = (*results.grid, *results.variants, *results.others)
    if not everything:
        return (
            f"{len(results.imported)} run{'s' * (len(results.imported) != 1)} on imported pictures, and no other.",
            "",
        )
    done = ended(everything)
    sizes = sorted({run.n for run in everything})
    worlds = _and(list(dict.fromkeys(results.world_title(run.world) for run in everything)))
    library = f"of {sizes[0]} to {sizes[-1]} objects" if len(sizes) > 1 else f"of {sizes[0]} objects"
    one = len(done) == 1
    what = _count(len({run.method for run in done if run.variant is None}), "method")
    changed = len({run.variant for run in done if run.variant is not None})
    what += f" and {_count(changed, 'variant')}" if changed else ""
    first = (
        f"{len(done)} run{'' if one else 's'} of {what} in {worlds}, "
        f"with libraries {library}, {'is' if one else 'are'} measured here"
    )
    for status, words in (("OM", "ran out of memory"), ("failed", "failed")):
        count = sum(run.status == status for run in everything)
        first += f"; {count} {words}" if count else ""
    return f"{first}.", _finding(results)


def _finding(results: Results) -> str:
    """The method whose worst setting is best, among the settings that the methods have in common."""
    measure, title = score("hard", "5"), results.method_title
    settings: dict[str, dict[tuple[str, int, int], list[RunResult]]] = {}
    for run in results.finished():
        if measure(run) is not None and run.n > run.k:
            settings.setdefault(run.method, {}).setdefault((run.world, run.n, run.k), []).append(run)
    if not settings and results.others:
        return "Their splits, or the sizes of their scenes, are not the paper's: see the splits of other kinds."
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
    text = f"Five steps ahead in unseen scenes, {title(best)} has an MRR of {worst(best, common):.1f} % or more"
    text += f" in the hard pool in {'the ' * bool(others)}{_count(len(common), 'setting')} (world, N and K)"
    if others:
        among = "" if len(compared) == len(settings) else f"{_count(len(compared))} of "
        text += f" that {among}the {_count(len(settings), 'method')} have in common"
    runs = [run for method in compared for setting in common for run in settings[method][setting]]
    still = [y for run in runs if (y := control("do_nothing", "hard", "5")(run)) is not None]
    text += f", where predicting no change has {max(still):.1f} % at most" if still else ""
    text += f"; next is {title(others[0])} with {worst(others[0], common):.1f} %" if others else ""
    if len(settings[best]) > len(common):
        whole = _count(len(settings[best]), "setting")
        text += f". In all its {whole} {title(best)} has {worst(best, settings[best]):.1f} % or more"
    return f"{text}."


def _count(number: int, noun: str = "") -> str:
    words = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
    word = words[number] if number < len(words) else str(number)
    return f"{word} {noun}{'' if number == 1 else 's'}" if noun else word


def missing(results: Results) -> list[str]:
    """What a reader may look for in vain."""
    said = [
        f"{name}: no run with five objects in a scene." for env, name in PAPER_WORLDS.items() if not results.paper(env)
    ]
    said += [text for env in results.worlds() if (text := _not_run(results, env))]
    said += [] if results.negatives else ["Negative sampling: there is no folder negatives."]
    said += [] if results.ablation else ["Ablation: there is no folder ablation."]
    said += [] if results.transfer else ["Other numbers of objects: there is no folder transfer."]
    bare = sum(not run.curve for run in results.finished())
    said += [f"Learning curves: {bare} of {len(results.finished())} results do not have one."] if bare else []
    masked = sum(run.segmentation is not None for run in results.finished())
    said += [] if masked else ["Segmentation: no result of the grid has it."]
    return said


def _not_run(results: Results, env: str) -> str:
    """The entries of the tables of a world that are empty, methods that lack the same sizes together."""
    lacking: dict[tuple[int, ...], list[str]] = {}
    for method in results.methods(env):
        sizes = sizes_of(env, results.paper(env))
        lacking.setdefault(tuple(n for n in sizes if not results.of(env, 5, n, method)), []).append(method)
    parts = [f"N = {_and(sizes)}: {_and(methods)}" for sizes, methods in lacking.items() if sizes]
    return f"{results.world_title(env)}, not run at {'; at '.join(parts)}." if parts else ""


def _and(things: Sequence[object]) -> str:
    *most, last = map(str, things)
    return f"{', '.join(most)} and {last}" if most else last
