"""Settings of Hypothesis and of processes that talk to each other, the order of the tests, and a browser.

Hypothesis draws the same examples in every run; ``--hypothesis-profile=explore`` draws new ones, and more.
"""

import os
import shutil
import socket
import sys
from pathlib import Path

import pytest
from hypothesis import settings

if "lo" in (name for _, name in socket.if_nameindex()):
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"  # whatever the name of this machine stands for

settings.register_profile("ci", deadline=None, derandomize=True)
settings.register_profile("explore", deadline=None, max_examples=1000)
settings.load_profile("ci")

LONGEST = ("test_shell_commands_run_in_order", "test_the_tutorial_runs_and_says_the_truth")


def pytest_collection_modifyitems(items):
    """The longest tests begin first, so that no process has to wait for another at the end."""
    items.sort(key=lambda item: item.name not in LONGEST)


@pytest.fixture(autouse=True, scope="module")
def forget_typed_names():
    """What the tests of one module have typed is unknown to those of the next."""
    yield
    for place, name in (("worlds", "WORLDS"), ("models", "METHODS"), ("models.extractors", "EXTRACTORS")):
        registry = getattr(sys.modules.get(f"howm.{place}.registry"), name, None)
        if registry is not None:
            for typed in list(registry._typed):
                del registry._typed[typed]
                registry._loaded.pop(typed, None)


@pytest.fixture(scope="module")
def pictures(tmp_path_factory):
    """Where the screenshots go: the folder SCREENSHOTS, to be looked at."""
    folder = Path(os.environ.get("SCREENSHOTS") or tmp_path_factory.mktemp("screenshots"))
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@pytest.fixture(scope="module")
def browser():
    sync_api = pytest.importorskip("playwright.sync_api")
    with sync_api.sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        yield chromium
        chromium.close()
