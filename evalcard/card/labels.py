"""Short names of a run's models, for tables and figures that show one run."""

from collections import Counter
from collections.abc import Sequence

from evalcard.results.records import ModelRecord


def model_labels(models: Sequence[ModelRecord]) -> dict[str, str]:
    """By slug, the shortest name that no other model of the run has: the scheme of one that was made of the baseline,
    else the slug, which is what findings and reasons call it. ``models``: the baseline first."""
    baseline = models[0].name if models else None
    labels = {model.slug: model.scheme if model.scheme and model.name == baseline else model.slug for model in models}
    # The baseline is called so, and stands in no column of models.
    count = Counter(labels[model.slug] for model in models if model.role == "compressed")
    return {slug: slug if count[label] > 1 else label for slug, label in labels.items()}
