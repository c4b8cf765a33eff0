"""compressed-tensors' kv_cache_scheme: what of it is read and run, and the scales beside attention modules."""

from collections.abc import Container

from evalcard_engine.checkpoint import kv_scales
from evalcard_engine.checkpoint.claims import ModuleClaim, Parts
from evalcard_engine.checkpoint.ct_args import Args
from evalcard_engine.checkpoint.reading import TensorReader


def unreadable(args: Args | None) -> list[str]:
    """What of a kv_cache_scheme this engine does not read."""
    if args is None:
        return []
    kinds = (("float", 8, "tensor"), ("int", 8, "tensor"))
    if not args.symmetric or (args.type, args.num_bits, args.strategy) not in kinds:
        zeros = "" if args.symmetric else ", asymmetric"
        return [
            f"kv_cache_scheme of {args.type}{args.num_bits} by {args.strategy}{zeros}; fp8 and int8 by tensor are read"
        ]
    return []


def unrunnable(args: Args | None) -> list[str]:
    """What of it is read, but not run."""
    if args is None or not args.dynamic:
        return []
    return [
        "kv_cache_scheme: a dynamic scale of the whole tensor would make an answer depend on its batch; static ones "
        "are run"
    ]


def missing_scales(projection: str, args: Args | None, tensors: Container[str]) -> list[str]:
    """A fault for the key projection of an attention module that has no scales though the scheme asks for them."""
    return [] if args is None or args.dynamic else kv_scales.missing_scales(projection, tensors)


def claim_scales(module: str, args: Args | None, parts: Parts, reader: TensorReader) -> ModuleClaim:
    """The scales of one attention module, or of one of its projections; what is not theirs stays unclaimed."""
    if args is None or args.dynamic:
        return ModuleClaim(None)
    return kv_scales.claim_scales(module, "fp8_e4m3" if args.type == "float" else "int8", parts, reader)
