"""The tensors of a model beside its text model: a tower for images and what joins the two."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from evalcard.footprint.parts import Part
from evalcard.footprint.settings import Settings

_SIGLIP = {"hidden_size": 768, "intermediate_size": 3072, "num_hidden_layers": 12, "num_channels": 3,
           "image_size": 224, "patch_size": 16}  # fmt: skip
_LLAMA4 = {"hidden_size": 768, "intermediate_size": 5632, "num_hidden_layers": 34, "num_channels": 3,
           "image_size": 448, "patch_size": 14, "vision_output_dim": 7680, "projector_input_dim": 4096,
           "projector_output_dim": 4096}  # fmt: skip
Tower = Callable[[Settings, int], Iterator[Part]]
"""(vision config, width of the text model) -> its parts."""


def vision_parts(model_type: str, config: Mapping[str, Any], text_width: int) -> Iterator[Part]:
    """Of a whole config.json; none where it has no vision_config. ``model_type`` is one of TOWERS."""
    found = config.get("vision_config")
    if isinstance(found, Mapping):
        defaults, tower = TOWERS[model_type]
        yield from tower(Settings("vision", found, defaults), text_width)


def _matrix(rows: int, columns: int, count: int = 1) -> Part:
    return Part("vision", rows, columns, count)


def _vector(size: int, count: int = 1) -> Part:
    return Part("vision", size, count=count)


def _encoder(config: Settings) -> Iterator[Part]:
    """Layers of attention and a plain MLP with biases everywhere, two norms with scale and shift each."""
    wide, layers = config.count("intermediate_size"), config.layers
    yield from (_matrix(config.hidden, config.hidden, 4 * layers), _vector(config.hidden, 4 * layers))
    yield from (_matrix(wide, config.hidden, 2 * layers), _vector(wide, layers), _vector(config.hidden, layers))
    yield _vector(config.hidden, 4 * layers)


def _patches(config: Settings) -> tuple[int, int]:
    """(numbers in a patch, patches of an image)."""
    side = config.count("patch_size")
    return config.count("num_channels") * side**2, (config.count("image_size") // side) ** 2


def _siglip(config: Settings, text_width: int) -> Iterator[Part]:
    """Gemma 3's tower, its norm and projection; the tower's pooling head is left out there (vision_use_head)."""
    numbers, patches = _patches(config)
    yield from (_matrix(config.hidden, numbers), _vector(config.hidden), _matrix(patches, config.hidden))
    yield from _encoder(config)
    yield _vector(config.hidden, 2)
    yield from (_vector(config.hidden), _matrix(config.hidden, text_width))


def _llama4(config: Settings, text_width: int) -> Iterator[Part]:
    """Llama 4's tower with a class token, the MLP behind its pixel shuffle, and the projector."""
    numbers, patches = _patches(config)
    yield from (_matrix(config.hidden, numbers), _vector(config.hidden), _matrix(patches + 1, config.hidden))
    yield _vector(config.hidden, 4)
    yield from _encoder(config)
    out = config.count("projector_output_dim")
    yield _matrix(config.count("projector_input_dim"), config.count("intermediate_size"))
    yield from (_matrix(out, out), _matrix(config.count("vision_output_dim"), text_width))


TOWERS: dict[str, tuple[Mapping[str, int], Tower]] = {"gemma3": (_SIGLIP, _siglip), "llama4": (_LLAMA4, _llama4)}
"""By model_type of the whole config: (defaults of its vision_config, rule)."""
