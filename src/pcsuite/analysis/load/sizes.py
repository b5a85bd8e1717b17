"""Model size as a factor: classes (S, M, L of the profile) beside the size that a model's entry names."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

Classes = Mapping[str, tuple[float, float | None]]
"""Size classes by name, in ascending order: billions of parameters from (included) and to (not included)."""


class ModelInfo(NamedTuple):
    """What the log and its manifest say of a model."""

    family: str
    size: str
    provider: str
    size_class: str = ""
    """Its class by the profile's ``analysis.size_classes``; empty where nothing was classed."""


class Levels(NamedTuple):
    """The levels of a factor of the models: what it is called, the level of each model, and the levels in order."""

    factor: str
    of: Mapping[str, str]
    order: Sequence[str]


def size_classes(
    models: Mapping[str, ModelInfo], parameters: Mapping[str, float | None], classes: Classes
) -> dict[str, str]:
    """The size class of each model, by billions of parameters as the manifest (else the size's name) has them.

    A model whose size is a class's own name belongs there, one of unknown size to the last class, where models behind
    an interface are.

    >>> models = {"a": ModelInfo("f", "8B", "p"), "b": ModelInfo("f", "frontier", "p")}
    >>> size_classes(models, {}, {"S": (0.0, 10.0), "L": (10.0, None)})
    {'a': 'S', 'b': 'L'}
    """
    class_of = {}
    for model, size in _billions(models, parameters).items():
        same_name = [name for name in classes if name.casefold() == models[model].size.casefold()]
        inside = [
            name
            for name, (low, high) in classes.items()
            if size is not None and low <= size and (high is None or size < high)
        ]
        class_of[model] = (inside or same_name or list(classes)[-1:])[0]
    return class_of


def model_levels(
    models: Mapping[str, ModelInfo], parameters: Mapping[str, float | None], classes: Classes
) -> Levels:
    """The factor by which effects are compared over sizes: the size class of each model.

    Where all models fall into one class but differ in size, the levels are the sizes as the models file names them.
    """
    class_of = size_classes(models, parameters, classes)
    # Within one class there is nothing to compare; where sizes differ all the same, they are the levels.
    sizes = {model: models[model].size for model in class_of}
    if len(set(class_of.values())) == 1 and len(set(sizes.values())) > 1:
        billions = _billions(models, parameters)
        ascending = sorted(sizes, key=lambda model: (billions[model] or float("inf"), model))
        return Levels("size", sizes, list(dict.fromkeys(sizes[model] for model in ascending)))
    return Levels("size class", class_of, [name for name in classes if name in class_of.values()])


def _billions(
    models: Mapping[str, ModelInfo], parameters: Mapping[str, float | None]
) -> dict[str, float | None]:
    billions: dict[str, float | None] = {}
    for model, info in models.items():
        # Of a name such as "8x7B" it reads the 7: the entry of such a model can say params_b.
        match = re.search(r"(\d+(?:\.\d+)?)\s*([MBT])", info.size, re.IGNORECASE)
        unit = {"M": 1e-3, "B": 1.0, "T": 1e3}[match[2].upper()] if match else 1.0
        billions[model] = parameters.get(model) or (float(match[1]) * unit if match else None)
    return billions
