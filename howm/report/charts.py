"""Line charts as SVG text whose colours are the page's: the same numbers give the same bytes, in light and in dark."""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from howm.experiments.plan import PAPER_METHODS

WIDTH, HEIGHT = 250, 170
LEFT, RIGHT, TOP, BOTTOM = 38, 10, 26, 32


OTHERS, SIZES = 5, 8  # colours that methods which are not ours, and sizes of libraries, take turns in
_STYLES = {
    *("control", "controlled", "uncontrolled", "theirs", *(f"m-{method}" for method in PAPER_METHODS)),
    *(f"m-other-{i}" for i in range(OTHERS)),
    *(f"size-{i}" for i in range(SIZES)),
}


def css(style: str) -> str:
    """Only classes that the style sheet has: names of runs become colours of charts."""
    return " ".join(name if name in _STYLES else "m-other-0" for name in style.split(" "))


@dataclass(frozen=True)
class Line:
    """``style`` is a class of the style sheet, which gives colour and dashes; a gap in y breaks the line."""

    name: str
    style: str
    points: tuple[tuple[float, float | None], ...]
    mark: str = "dot"  # dot, ring, halo (around the dot of another line) or none


@dataclass(frozen=True)
class Chart:
    """``x_ticks`` are the places worth naming; both axes may count in powers of ten."""

    title: str
    x_name: str
    y_name: str
    lines: tuple[Line, ...]
    x_ticks: tuple[float, ...]
    log_x: bool = False
    log_y: bool = False
    y_range: tuple[float, float] | None = None
    rules: tuple[float, ...] = ()  # upright lines, where one phase ends and the next begins


def number(value: float) -> str:
    """As short as can be read: 250, 2.5, 10⁻³."""
    if value != 0 and (abs(value) < 0.01 or abs(value) >= 1e6):
        power = math.floor(math.log10(abs(value)) + 1e-9)
        digits = str(power).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
        factor = value / 10**power
        return f"10{digits}" if abs(factor - 1) < 1e-6 else f"{factor:.0f}·10{digits}"
    return f"{value:,.10g}"


def ticks(low: float, high: float, log: bool) -> list[float]:
    """Three to six round numbers within a range."""
    if log:
        first, last = math.ceil(math.log10(low) - 1e-9), math.floor(math.log10(high) + 1e-9)
        every = max(1, math.ceil((last - first + 1) / 5))
        return [10.0**power for power in range(first, last + 1, every)]
    rough = (high - low) / 4
    unit = 10.0 ** math.floor(math.log10(rough))
    step = next(unit * factor for factor in (1, 2, 2.5, 5, 10) if unit * factor >= rough * 0.999)
    return [step * i for i in range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1)]


def _limits(chart: Chart) -> tuple[float, float]:
    values = [y for line in chart.lines for _, y in line.points if y is not None and (y > 0 or not chart.log_y)]
    if chart.y_range is not None or not values:
        return chart.y_range or (0.1 if chart.log_y else 0.0, 1.0)
    if not chart.log_y:
        return 0.0, max(values) * 1.08 or 1.0
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    return 10.0**low, 10.0 ** max(high, low + 1)


def words(text: str) -> str:
    """Text for SVG, with the paper's indices lowered."""
    return re.sub(r"Σ_([NK])", r'Σ<tspan dy="2" font-size="75%">\1</tspan><tspan dy="-2">&#8203;</tspan>', escape(text))


@dataclass(frozen=True)
class Strip:
    """A row of dots, and of short lines for what they have to beat."""

    name: str
    style: str
    dots: tuple[float, ...]
    floors: tuple[float, ...] = ()


def draw_strips(title: str, strips: Sequence[Strip]) -> str:
    """Percentages of several things, one below the other."""
    left, top, row, right = 86, 12, 21, 330
    bottom = top + row * len(strips)

    def x(value: float) -> float:
        return left + (right - left) * value / 100

    parts = []
    for tick in (0, 25, 50, 75, 100):
        parts.append(f'<line class="grid" x1="{x(tick):.1f}" x2="{x(tick):.1f}" y1="{top - 6}" y2="{bottom - 4}"/>')
        parts.append(f'<text class="tick" x="{x(tick):.1f}" y="{bottom + 9}" text-anchor="middle">{tick}</text>')
    for i, strip in enumerate(strips):
        y = top + row * (i + 0.5) - 4
        parts.append(f'<text class="name" x="{left - 10}" y="{y + 3.5}" text-anchor="end">{words(strip.name)}</text>')
        floors = "".join(
            f'<line x1="{x(value):.1f}" x2="{x(value):.1f}" y1="{y - 5}" y2="{y + 5}"/>' for value in strip.floors
        )
        dots = "".join(f'<circle cx="{x(value):.1f}" cy="{y}" r="3.4"/>' for value in strip.dots)
        parts.append(f'<g class="control floor">{floors}</g><g class="{css(strip.style)} dot">{dots}</g>')
    said = "; ".join(f"{strip.name} {_range(strip.dots)}" for strip in strips if strip.dots)
    label = escape(f"{title}: {said}.")
    return f'<svg viewBox="0 0 340 {bottom + 14}" role="img" aria-label="{label}">{"".join(parts)}</svg>'


def _range(values: Sequence[float]) -> str:
    low, high = f"{min(values):.1f}", f"{max(values):.1f}"
    return low if low == high else f"{low} to {high}"


@dataclass(frozen=True)
class Interval:
    """A value and the interval around it, in a row of its own."""

    name: str
    style: str
    value: float
    low: float
    high: float


def draw_intervals(title: str, rows: Sequence[Interval]) -> str:
    """Intervals one below the other, on one axis that has zero."""
    left, top, row, right = 150, 12, 21, 470
    bottom = top + row * len(rows)
    least, most = min(0.0, *(one.low for one in rows)), max(0.0, *(one.high for one in rows))
    room = 0.06 * (most - least) or 1.0
    least, most = least - room, most + room

    def x(value: float) -> float:
        return left + (right - left) * (value - least) / (most - least)

    parts = []
    for tick in ticks(least, most, log=False):
        kind = "zero" if tick == 0 else "grid"
        parts.append(f'<line class="{kind}" x1="{x(tick):.1f}" x2="{x(tick):.1f}" y1="{top - 6}" y2="{bottom - 4}"/>')
        label = f"{tick:+z,.10g}".replace("-", "−") if tick else "0"
        parts.append(f'<text class="tick" x="{x(tick):.1f}" y="{bottom + 9}" text-anchor="middle">{label}</text>')
    for i, one in enumerate(rows):
        y = top + row * (i + 0.5) - 4
        parts.append(f'<text class="name" x="{left - 10}" y="{y + 3.5}" text-anchor="end">{words(one.name)}</text>')
        parts.append(
            f'<g class="{css(one.style)} dot"><path d="M{x(one.low):.1f} {y}L{x(one.high):.1f} {y}"/>'
            f'<circle cx="{x(one.value):.1f}" cy="{y}" r="3.4"/></g>'
        )
    said = "; ".join(f"{one.name} {one.value:+.2f}, {one.low:+.2f} to {one.high:+.2f}" for one in rows)
    label = escape(f"{title}: {said}.")
    return f'<svg viewBox="0 0 480 {bottom + 14}" role="img" aria-label="{label}">{"".join(parts)}</svg>'


def draw(chart: Chart) -> str:
    """One panel; read aloud it is its title and what its lines end with."""
    low, high = _limits(chart)
    xs = [x for line in chart.lines for x, _ in line.points] + list(chart.x_ticks)
    left, right = (min(xs), max(xs)) if xs else (0.0, 1.0)

    def place(value: float, low: float, high: float, log: bool) -> float:
        if log:
            value, low, high = (math.log10(v) for v in (value, low, high))
        return 0.5 if high == low else (value - low) / (high - low)

    def x(value: float) -> float:
        return LEFT + 8 + (WIDTH - LEFT - RIGHT - 16) * place(value, left, right, chart.log_x)

    def y(value: float) -> float:
        inside = min(max(value, low), high)  # a loss of zero has no logarithm
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * place(inside, low, high, chart.log_y)

    parts = [f'<text class="title" x="0" y="12">{words(chart.title)}</text>']
    for tick in ticks(low, high, chart.log_y):
        parts.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y(tick):.1f}" y2="{y(tick):.1f}"/>')
        parts.append(f'<text class="tick" x="{LEFT - 5}" y="{y(tick) + 3:.1f}" text-anchor="end">{number(tick)}</text>')
    under = HEIGHT - BOTTOM + 14
    parts += [
        f'<text class="tick" x="{x(tick):.1f}" y="{under}" text-anchor="middle">{number(tick)}</text>'
        for tick in chart.x_ticks
    ]
    names = f"{chart.x_name} →", f"↑ {chart.y_name}"
    parts.append(f'<text class="axis" x="{WIDTH - RIGHT}" y="{HEIGHT - 4}" text-anchor="end">{escape(names[0])}</text>')
    parts.append(f'<text class="axis" x="0" y="{HEIGHT - 4}">{escape(names[1])}</text>')
    parts += [
        f'<line class="rule" x1="{x(rule):.1f}" x2="{x(rule):.1f}" y1="{TOP}" y2="{HEIGHT - BOTTOM}"/>'
        for rule in chart.rules
        if left <= rule <= right
    ]
    parts += [_line(line, [(x(a), None if b is None else y(b)) for a, b in line.points]) for line in chart.lines]
    said = "; ".join(f"{line.name} {_last(line)}" for line in chart.lines) or "nothing has been measured"
    if not chart.lines:
        parts.append(f'<text class="axis" x="{WIDTH / 2}" y="{HEIGHT / 2}" text-anchor="middle">missing</text>')
    label = escape(f"{chart.title}: {chart.y_name} against {chart.x_name}. {said}.")
    return f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{label}">{"".join(parts)}</svg>'


def _last(line: Line) -> str:
    known = [value for _, value in line.points if value is not None]
    return f"{known[-1]:.3g}" if known else "missing"


def _line(line: Line, points: Sequence[tuple[float, float | None]]) -> str:
    pieces: list[list[tuple[float, float]]] = [[]]
    for x, y in points:
        if y is None:
            pieces.append([])
        else:
            pieces[-1].append((x, y))
    paths = "".join(f'<path d="M{"L".join(f"{x:.1f} {y:.1f}" for x, y in piece)}"/>' for piece in pieces if piece[1:])
    radius = {"dot": 2.6, "ring": 3.2, "halo": 4.6, "none": 0.0}[line.mark]
    lonely = [piece[0] for piece in pieces if len(piece) == 1]  # would not be seen without a mark
    marked = lonely if line.mark == "none" else [point for piece in pieces for point in piece]
    marks = "".join(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius or 1.6}"/>' for x, y in marked)
    return f'<g class="{css(line.style)} {line.mark}"><title>{escape(line.name)}</title>{paths}{marks}</g>'
