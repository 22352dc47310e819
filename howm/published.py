"""The paper's own numbers (Tables 1 and 2, K=5), to be set beside ours."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Published:
    """MRR on unseen scenes at 1 and 5 steps, and the gap to training scenes at 5 steps, all in percent."""

    mrr_1: float
    mrr_5: float
    gap_5: float


_N = (5, 10, 20, 30)
_HOWM = {
    "shapes": ((99.2, 98.5, 99.7, 99.7), (92.3, 84.2, 75.1, 81.8), (4.7, 12.7, 22.9, 16.3)),
    "rush_hour": ((96.7, 94.3, 98.7), (84.3, 63.2, 65.3), (11.2, 31.1, 31.3)),
}
_TABLES: dict[str, dict[str, tuple[tuple[float, ...], tuple[float, ...], tuple[float, ...]]]] = {
    "shapes": {
        "cswm-n": ((100.0, 100.0, 99.9), (99.9, 99.9, 99.9), (0.0, 0.0, 0.1)),
        "cswm-k": ((100.0, 80.4, 70.8, 74.1), (99.9, 43.7, 32.2, 29.4), (0.1, 55.3, 67.8, 70.6)),
        "cswm-k-ca": ((95.0, 72.0, 71.4, 80.9), (85.0, 26.8, 22.7, 24.3), (11.3, 69.7, 73.4, 73.7)),
        "cwm-n": ((83.6, 81.4, 25.8, 12.9), (61.8, 55.0, 11.2, 7.6), (26.2, 41.6, 30.3, 26.2)),
        "howm-paper": _HOWM["shapes"],
        "howm": _HOWM["shapes"],
    },
    "rush_hour": {
        "cswm-n": ((100.0, 100.0, 99.9), (99.9, 99.8, 99.8), (0.1, 0.2, 0.1)),
        "cswm-k": ((100.0, 66.9, 47.6), (99.9, 29.5, 13.7), (0.1, 66.0, 85.0)),
        "cswm-k-ca": ((99.2, 55.4, 80.2), (94.9, 15.5, 15.8), (4.2, 84.5, 84.2)),
        "cwm-n": ((55.5, 67.8, 80.6), (23.7, 24.5, 45.3), (48.8, 70.7, 54.1)),
        "howm-paper": _HOWM["rush_hour"],
        "howm": _HOWM["rush_hour"],
    },
}


def published(env: str, method: str, n: int, k: int) -> Published | None:
    """What the paper reports for a cell of its tables; nothing for any other, nor where it ran out of memory."""
    columns = _TABLES.get(env, {}).get(method)
    if columns is None or k != 5 or n not in _N[: len(columns[0])]:
        return None
    return Published(*(column[_N.index(n)] for column in columns))
