"""A dataset and its certificate in words."""

from typing import Any

from howm.data.dataset import Dataset


def dataset_text(dataset: Dataset) -> str:
    """World, grid and amounts."""
    height, width, _ = dataset.train.picture_shape
    p = dataset.cell_pixels
    size = f"{height}x{width} pixels, no grid" if p is None else f"{height // p}x{width // p} cells of {p}x{p} pixels"
    lines = [
        f"world        {dataset.world_name}, {dataset.n} objects, {_sizes_text(dataset)} in a scene",
        f"{'pictures' if p is None else 'grid':12s} {size}",
        *(f"{name:12s} {len(episodes)} episodes of {episodes.steps} steps" for name, episodes in dataset.parts()),
    ]
    return "\n".join(lines)


def certificate_text(dataset: Dataset, certificate: dict[str, Any]) -> str:
    """What a certificate says, for people."""
    lines = [dataset_text(dataset)]
    if dataset.split is not None:
        sizes = f"{certificate['train_scenes']} train, {certificate['eval_scenes']} eval"
        lines.append(f"scenes       {sizes}, of {certificate['combinations']}")
        for name in ("train", "eval"):
            counts = certificate[f"{name}_counts"]
            balanced = "balanced" if certificate["balanced"][name] else "not balanced: no better set was found"
            listed = f": {counts}" if len(counts) <= 30 else ""
            often = f"each object in {min(counts)} to {max(counts)} scenes ({balanced}){listed}"
            lines.append(f"{name + ' counts':12s} {often}")
        if dataset.split.kind != "scenes":
            lines.append(f"split        {dataset.split.kind}")
        if pairs := certificate.get("pairs_apart"):
            lines.append(f"pairs apart  {', '.join(f'{i}+{j}' for i, j in pairs)}")
        divergence = dataset.split.divergence().items()
        lines.append("divergence   " + ", ".join(f"{name} {value:.3f}" for name, value in divergence))
        lines += [f"disjoint     {certificate['disjoint']}", f"covered      {certificate['covered']}"]
    lines += [f"unseen       {certificate['unseen']}", f"split hash   {certificate['hash']}"]
    lines += [f"VIOLATED     {violation}" for violation in certificate["violations"]]
    lines.append("certificate  " + ("VIOLATED" if certificate["violations"] else "holds"))
    return "\n".join(lines)


def _sizes_text(dataset: Dataset) -> str:
    if dataset.split is None or len(dataset.split.sizes) == 1:
        return str(dataset.k)
    train, evaluation = ("-".join(map(str, sorted({part.sizes[0], part.k}))) for part in
                         (dataset.split.train, dataset.split.eval))  # fmt: skip
    return train if train == evaluation else f"{train} (evaluation {evaluation})"
