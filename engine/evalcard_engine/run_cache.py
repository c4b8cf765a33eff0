"""What an engine keeps between runs beside the model: the pool, who holds its pages, and what was computed into it."""

from evalcard_engine.cache.pages import PageAllocator
from evalcard_engine.cache.prefix import NoReuse, PrefixCache
from evalcard_engine.cache.prefix_tree import PrefixTree
from evalcard_engine.config import EngineConfig
from evalcard_engine.cuda_capture import CudaCapture
from evalcard_engine.graphs import Capture, DecodeGraphs
from evalcard_engine.runner import Model, PlanningModel, Runner
from evalcard_engine.scheduler import Scheduler
from evalcard_engine.step import Limits


def graph_capture(model: Model, config: EngineConfig) -> Capture | None:
    """What captures the model's steps of answers; None where they are launched kernel by kernel."""
    if config.device != "cuda" or not config.cuda_graphs:
        return None
    return CudaCapture() if isinstance(model, PlanningModel) and model.is_replayable else None


class RunCache:
    """A pool and all that keeps its books; replaced as a whole when requests need a larger one."""

    def __init__(self, model: Model, config: EngineConfig, limits: Limits, num_pages: int) -> None:
        self.num_pages = num_pages
        self.allocator = PageAllocator(num_pages)
        kind = PrefixTree if config.prefix_cache else NoReuse
        prefixes: PrefixCache = kind(self.allocator, limits.page_size)
        self.scheduler = Scheduler(self.allocator, prefixes, limits)
        capture = graph_capture(model, config)
        # One page more than the allocator knows of, for the rows that graphs are padded with.
        pool = model.make_pool(num_pages + (capture is not None), limits.page_size)
        self.graphs: DecodeGraphs | None = None
        if capture is not None:
            assert isinstance(model, PlanningModel), type(model)
            self.graphs = DecodeGraphs(
                model, pool, limits.page_size, num_pages, limits.max_sequences, config.device, capture
            )
        self.runner = Runner(model, pool, limits.page_size, config.device, self.graphs)
