"""CUDA graphs by torch: one stream, one memory pool that all graphs share, and how much they take."""

from collections.abc import Callable

import torch


class CudaCapture:
    """Graphs that are replayed one at a time on one device, so each may overwrite what the others left."""

    def __init__(self) -> None:
        self._stream = torch.cuda.Stream()
        self._pool = torch.cuda.graph_pool_handle()
        self.num_bytes = 0

    def capture(self, work: Callable[[], None]) -> Callable[[], None]:
        """As graphs.Capture says. ``work`` may allocate: what it leaves alive outlives the graph's own memory."""
        current = torch.cuda.current_stream()
        self._stream.wait_stream(current)
        graph = torch.cuda.CUDAGraph()
        try:
            # Kernels are compiled and libraries take their workspaces before anything is recorded.
            with torch.cuda.stream(self._stream):
                work()
            torch.cuda.synchronize()
            torch.cuda.empty_cache()
            free, _ = torch.cuda.mem_get_info()
            with torch.cuda.graph(graph, pool=self._pool, stream=self._stream, capture_error_mode="thread_local"):
                work()
        finally:
            # torch leaves its own stream behind where the end of a capture fails.
            torch.cuda.set_stream(current)
        left, _ = torch.cuda.mem_get_info()
        self.num_bytes += max(0, free - left)
        return graph.replay
