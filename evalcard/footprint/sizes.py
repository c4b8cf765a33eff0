"""How amounts of memory look: GiB throughout, GB in brackets."""

from evalcard.footprint.gpus import GIB

GB = 10**9


def rounded(value: float) -> str:
    """Four significant digits, whole numbers above them in full: 0.625, 131.4, 1,250."""
    if value >= 1000:
        return f"{value:,.0f}"
    text = f"{value:.4g}"
    return text if "e" not in text else f"{value:.10f}".rstrip("0")


def gib(num_bytes: int) -> str:
    """``131.4``, in GiB (2^30 bytes)."""
    return rounded(num_bytes / GIB)


def gib_and_gb(num_bytes: int) -> str:
    """``131.4 (141.1)``, for a column whose head names the units."""
    return f"{gib(num_bytes)} ({rounded(num_bytes / GB)})"


def memory(num_bytes: int) -> str:
    """``131.4 GiB (141.1 GB)``."""
    return f"{gib(num_bytes)} GiB ({rounded(num_bytes / GB)} GB)"
