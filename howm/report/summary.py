"""What the page says of all results together."""

from collections.abc import Collection, Sequence

from howm.report.figures import _mean
from howm.report.results_folder import Results, control, ended, score
from howm.runs.result import RunResult


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
    worlds = listed(list(dict.fromkeys(results.world_title(run.world) for run in everything)))
    library = (
        f"libraries of {sizes[0]} to {sizes[-1]} objects" if len(sizes) > 1 else f"a library of {_objects(sizes[0])}"
    )
    one = len(done) == 1
    methods = list(dict.fromkeys(run.method for run in done if run.variant is None))
    what = results.method_title(methods[0]) if len(methods) == 1 else _count(len(methods), "method")
    changed = len({run.variant for run in done if run.variant is not None})
    what += f" and {_count(changed, 'variant')}" if changed else ""
    first = (
        f"{_count(len(done), 'run').capitalize()} of {what} in {worlds}, "
        f"with {library}, {'is' if one else 'are'} measured here"
    )
    for status, words in (("OM", "ran out of memory"), ("failed", "failed")):
        count = sum(run.status == status for run in everything)
        first += f"; {count} {words}" if count else ""
    return f"{first}.", _finding(results)


def _objects(number: int) -> str:
    return f"{number} object{'' if number == 1 else 's'}"


Setting = tuple[str, int, int]


def _finding(results: Results) -> str:
    """The method whose worst setting is best, among the settings that the methods have in common."""
    steps = results.headline_steps()
    if steps is None and results.others:
        return "Their splits, or the sizes of their scenes, are not the paper's: see the splits of other kinds."
    if steps is None:
        return "Nothing has been measured yet."
    measure, title = score("hard", steps), results.method_title
    settings: dict[str, dict[Setting, list[RunResult]]] = {}
    for run in results.finished():
        if measure(run) is not None and run.n > run.k:
            settings.setdefault(run.method, {}).setdefault((run.world, run.n, run.k), []).append(run)
    ahead = f"{_count(int(steps), 'step').capitalize()} ahead in unseen scenes"
    if not settings:
        return f"{ahead}, nothing has been measured: where N = K, no scene is unseen."
    by_number = sorted(settings, key=lambda method: -len(settings[method]))
    compared, common = [by_number[0]], {*settings[by_number[0]]}
    for method in by_number[1:]:
        if both := common & settings[method].keys():
            compared, common = [*compared, method], both

    def worst(method: str, some: Collection[Setting]) -> float:
        return min(_mean(settings[method][setting], measure) or 0 for setting in some)

    def at_least(method: str, some: Collection[Setting]) -> str:
        return f"{worst(method, some):.1f} %{' or more' * (len(some) > 1)}"

    best, *others = sorted(compared, key=lambda method: -round(worst(method, common), 1))
    text = f"{ahead}, {title(best)} has an MRR of {at_least(best, common)} in the hard pool"
    text += f" in {_where(results, common, [settings[method] for method in settings])}"
    if others and {*common} != {setting for some in settings.values() for setting in some}:
        among = "" if len(compared) == len(settings) else f"{_count(len(compared))} of "
        text += f" that {among}the {_count(len(settings), 'method')} have in common"
    runs = [run for method in compared for setting in common for run in settings[method][setting]]
    still = [y for run in runs if (y := control("do_nothing", "hard", steps)(run)) is not None]
    if still:
        text += f", where predicting no change has {max(still):.1f} %{' at most' * (len(still) > 1)}"
    text += f"; next is {title(others[0])} with {at_least(others[0], common)}" if others else ""
    if len(settings[best]) > len(common):
        whole = _count(len(settings[best]), "setting")
        text += f". In all its {whole} {title(best)} has {at_least(best, settings[best])}"
    if others and all(len(settings[method][setting]) == 1 for method in compared for setting in common):
        text += ". There is one seed of each: other seeds may change the order"
    return f"{text}."


def _where(results: Results, common: Collection[Setting], every: Sequence[Collection[Setting]]) -> str:
    """The one setting, or how many there are."""
    ((world, n, k), *others) = sorted(common)
    if others:
        return f"{'the ' * (len(every) > 1)}{_count(len(common), 'setting')} (world, N and K)"
    lone = all(len(some) == 1 for some in every)
    return f"{results.world_title(world)}, N = {n}, K = {k}{'' if lone else ', the one setting'}"


def _count(number: int, noun: str = "") -> str:
    words = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
    word = words[number] if number < len(words) else str(number)
    return f"{word} {noun}{'' if number == 1 else 's'}" if noun else word


def missing(results: Results) -> list[str]:
    """What a reader may look for in vain among what was run."""
    said = [text for study in results.studies() if (text := _not_run(results, *study))]
    bare = sum(not run.curve for run in results.finished())
    said += [f"Learning curves: {bare} of {len(results.finished())} results do not have one."] if bare else []
    return said


def _not_run(results: Results, world: str, k: int) -> str:
    """Methods that were run at some sizes of a world and not at others, those that lack the same sizes together."""
    runs = results.of(world, k)
    sizes = sorted({run.n for run in runs})
    lacking: dict[tuple[int, ...], list[str]] = {}
    for method in results.methods():
        own = {run.n for run in runs if run.method == method}
        lacking.setdefault(tuple(n for n in sizes if own and n not in own), []).append(method)
    parts = [f"N = {listed(some)}: {listed(methods)}" for some, methods in lacking.items() if some]
    return f"{results.study_title(world, k)}, not run at {'; at '.join(parts)}." if parts else ""


def listed(things: Sequence[object]) -> str:
    """As a sentence has it: one, two and three."""
    *most, last = map(str, things)
    return f"{', '.join(most)} and {last}" if most else last
