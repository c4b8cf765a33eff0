"""Settings of every test."""

import os

from hypothesis import settings

# In CI the same examples every time, so that a red run can be repeated; elsewhere new ones, which find new faults.
settings.register_profile("ci", derandomize=True, deadline=None)
if os.environ.get("CI"):
    settings.load_profile("ci")
