"""Which backend answers for the models of a run. Light: what a backend needs is imported when it is made."""

from evalcard.backends.backend import Backend
from evalcard.backends.engine_process import EngineProcess, pays
from evalcard.progress import Progress
from evalcard.spec import RunSpec


def make_backends(spec: RunSpec, progress: Progress) -> list[Backend]:
    """One for each of the spec's models, in their order. Raises UserError for arguments a backend does not know."""
    if spec.backend != "evalcard":
        from evalcard.backends.harness import HarnessBackend

        return [HarnessBackend(spec, model, progress) for model in spec.models]
    if pays():
        from evalcard.backends.apart import ApartBackend

        process = EngineProcess(progress)
        return [ApartBackend(process, spec, model) for model in spec.models]
    from evalcard.backends.embedded import EmbeddedBackend

    return [EmbeddedBackend(spec, model, progress) for model in spec.models]
