"""Settings of Hypothesis, and the order of the tests.

Hypothesis draws the same examples in every run; ``--hypothesis-profile=explore`` draws new ones, and more.
"""

from hypothesis import settings

settings.register_profile("ci", deadline=None, derandomize=True)
settings.register_profile("explore", deadline=None, max_examples=1000)
settings.load_profile("ci")

LONGEST = ("test_shell_commands_run_in_order", "test_the_tutorial_runs_and_says_the_truth")


def pytest_collection_modifyitems(items):
    """The longest tests begin first, so that no process has to wait for another at the end."""
    items.sort(key=lambda item: item.name not in LONGEST)
