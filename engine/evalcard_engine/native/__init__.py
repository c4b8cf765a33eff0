"""C beside the Python: what torch has no fast form of on the CPU, compiled here by the user's own compiler.

Triton does the same for its launchers. Where there is no compiler, or the CPU is none of those named in `build`, torch
computes what the C would, and the numerics string says so.
"""
