"""A model and what is done to it: the one place that parses ``MODEL[:scheme]``."""

import re
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from evalcard.errors import UserError
from evalcard.resources import demo_model
from evalcard_engine.errors import EngineError
from evalcard_engine.quant.scheme import parse_scheme

DEMO = "@demo"
"""The bundled demo model, wherever evalcard is installed; neither a Hub id nor a likely folder."""
HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[\w.-]+(@[\w./-]+)?")
"""ORG/NAME, with or without @REVISION."""


class Strict(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class ModelSpec(Strict):
    """A model and what is done to it: FOLDER, FILE.gguf or ORG/NAME[@REV], and a scheme."""

    source: str
    """A folder, a GGUF file, a Hub id, or a URL for backends that take one."""
    revision: str | None = None
    scheme: str | None = None
    """Canonical scheme name; None runs the model as it is."""
    args: dict[str, str] = {}
    """Passed on to the backend."""

    @property
    def location(self) -> str:
        """What is opened: the source, or the bundled model's folder."""
        return str(demo_model()) if self.source == DEMO else self.source

    @property
    def is_local(self) -> bool:
        is_path = self.source.startswith((".", "/", "~")) or _is_gguf(self.source)
        return self.source == DEMO or is_path or Path(self.source).expanduser().exists()

    @property
    def hub_id(self) -> str | None:
        """None for a folder, a file or a URL."""
        return None if self.is_local or "://" in self.source else self.source

    @property
    def name(self) -> str:
        """The Hub id, or the last part of the path or URL: fit for a card."""
        if self.source == DEMO:
            return "evalcard-demo"
        if _is_gguf(self.source):  # not resolved: in the Hub's cache the name is a link to a hash
            return Path(self.source).stem
        return self.hub_id or Path(self.source.rstrip("/")).expanduser().resolve().name

    @property
    def label(self) -> str:
        return f"{self.name}:{self.scheme}" if self.scheme else self.name


def parse_model(text: str) -> ModelSpec:
    """Split ``MODEL[:scheme]``: an existing path or a URL is whole, else the last ``:`` parts model and scheme."""
    text = text.strip()
    if not text:
        raise UserError("a model is empty. Give a folder or a Hub id such as org/name, optionally with :scheme.")
    if text.startswith("@") and text.partition(":")[0] != DEMO and not Path(text).exists():
        raise UserError(
            f"unknown model {text!r} (did you mean {DEMO}?). {DEMO} is the bundled model; any other is a folder or a "
            "Hub id such as org/name."
        )
    if "://" in text or Path(text).expanduser().exists() or ":" not in text or _is_gguf(text):
        return _split_revision(text, None)
    source, _, scheme_text = text.rpartition(":")
    try:
        scheme = parse_scheme(scheme_text)
    except EngineError as error:
        raise UserError(f"in model {text!r}: {error}") from None
    return _split_revision(source, scheme.name)


def _is_gguf(source: str) -> bool:
    return source.lower().endswith(".gguf") and "://" not in source


def _split_revision(source: str, scheme: str | None) -> ModelSpec:
    is_path = Path(source).expanduser().exists() or "://" in source or _is_gguf(source)
    if not is_path and HUB_ID.fullmatch(source) and "@" in source:
        source, _, revision = source.partition("@")
        return ModelSpec(source=source, revision=revision, scheme=scheme)
    return ModelSpec(source=source, scheme=scheme)
