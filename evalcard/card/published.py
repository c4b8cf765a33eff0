"""What the models of a run are called on the Hub by their user's word, where they were measured under other names."""

from evalcard.card.options import CardOptions
from evalcard.card.paths import without_paths
from evalcard.results.records import ModelRecord, RunRecord
from evalcard_engine.quant.scheme import parse_scheme


def published_as(run: RunRecord, model: ModelRecord, options: CardOptions) -> str | None:
    """The repository that was given, where it holds this model: of several compressed models it can be only one's and
    is left aside, and weights that are compressed while loading are in none."""
    is_made_now = bool(model.scheme) and parse_scheme(model.scheme or "").changes_weights
    return options.repo if len(run.models) == 2 and not is_made_now else None


def original_as(baseline: ModelRecord, base_model: str | None) -> str | None:
    """The Hub id of the model that was compressed, where the baseline can be that model: a plain one from a folder."""
    config = baseline.config or {}
    is_plain = not baseline.scheme and not config.get("quantization_config") and not is_gguf(baseline)
    return base_model if baseline.hub_id is None and is_plain else None


def is_gguf(model: ModelRecord) -> bool:
    """Whether it is one file in GGUF rather than a folder with its weights."""
    return (model.scheme_title or "").lower().startswith("gguf")


def folders_of(*models: tuple[ModelRecord, str | None]) -> tuple[tuple[str, str], ...]:
    """(name, Hub id) of those folders in a run's command that hold what has a Hub id by its user's word.

    Empty where two folders have the same last part, which cannot tell them apart, unless they hold the same weights.
    """
    weights = {(model.name, (model.weights_digest or model.slug).partition("+")[0]) for model, _ in models}
    if len({name for name, _ in weights}) < len(weights):
        return ()
    return tuple((without_paths(model.name), named) for model, named in models if named and not model.hub_id)
