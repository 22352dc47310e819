"""Hypothesis draws the same examples in every run; ``--hypothesis-profile=explore`` draws new ones, and more."""

from hypothesis import settings

settings.register_profile("ci", deadline=None, derandomize=True)
settings.register_profile("explore", deadline=None, max_examples=1000)
settings.load_profile("ci")
