"""What is kept for tests: decided by a hash of the item's own content, so nothing has to be remembered."""

import hashlib


def bucket(key: tuple, num_buckets: int) -> int:
    """A number in [0, num_buckets) that depends on the key's content alone."""
    digest = hashlib.blake2b(repr(key).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") % num_buckets


def is_held_out(key: tuple, one_in: int = 8) -> bool:
    """True for one key in `one_in`: such a key may be tested and is never trained on."""
    return bucket(key, one_in) == 0
