"""An exported page in a browser, from disk: it asks nothing of anyone, and plays as the model in Python does."""

import numpy as np
import pytest
import torch

import howm
from howm.explorer.export.page import export_page

pytestmark = pytest.mark.browser
NAME, K = "howm-shapes-n10", 5
KEYS = ("ArrowUp", "ArrowRight", "ArrowDown", "ArrowLeft")  # by action of an object of Shapes
SEEDED = "let seed = 1; Math.random = () => (seed = (seed * 16807) % 2147483647) / 2147483647;"
LEVEL = 1  # of 255: numbers that differ in their last digits may be rounded to neighbouring bytes


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    return export_page(NAME, tmp_path_factory.mktemp("page") / "page.html", sizes=[K])


@pytest.fixture
def opened(browser, exported):
    """The page, and what it complained of and asked for."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    page = context.new_page()
    errors, requests = [], []
    page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("request", lambda request: requests.append(request.url))
    page.add_init_script(SEEDED)
    page.goto(exported.as_uri())
    page.wait_for_selector("body:not(.loading)")
    yield page, errors
    context.close()
    assert errors == []
    assert requests == [exported.as_uri()]


def canvas(page, name: str) -> np.ndarray:
    """The pixels of a canvas."""
    script = "(id) => { const c = document.getElementById(id); return [c.height, c.width, "
    script += "...c.getContext('2d').getImageData(0, 0, c.width, c.height).data]; }"
    height, width, *data = page.evaluate(script, name)
    return np.array(data, dtype=np.uint8).reshape(height, width, 4)[..., :3]


def wait_for_step(page, time: int) -> None:
    sync_api = pytest.importorskip("playwright.sync_api")
    sync_api.expect(page.locator("#time-now")).to_have_text(str(time))  # functions to wait for would be evaluated text


def test_ten_moves_are_those_of_the_model(opened):
    page, _ = opened
    scene = page.evaluate("backend.scene")
    state = np.array([page.evaluate("backend.states[0]")])
    world, model = howm.make_world("shapes", n=10), howm.load(NAME)
    ids = np.array([scene])
    imagined = model.encode(torch.from_numpy(world.render(ids, state)))
    assert np.array_equal(canvas(page, "truth"), world.render(ids, state)[0])

    rng = np.random.default_rng(0)
    for time in range(1, 11):
        item, direction = int(rng.choice(scene)), int(rng.integers(4))
        page.locator(f"#board [data-object='{item}']").focus()
        page.keyboard.press(KEYS[direction])
        wait_for_step(page, time)
        action = 4 * item + direction
        state = world.step(ids, state, np.array([action]))
        with torch.no_grad():
            imagined = model.step(imagined, torch.tensor([action]))
            drawn = (model.draw(imagined)[0].clamp(0, 1) * 255).round().byte().numpy()
        assert np.array_equal(canvas(page, "truth"), world.render(ids, state)[0])
        apart = np.abs(canvas(page, "imagined-0").astype(int) - drawn)
        assert apart.max() <= LEVEL
        assert (apart > 0).mean() < 0.001


def test_everything_else_answers(opened, pictures):
    page, _ = opened
    page.click("#surprise")
    for time in range(1, 11):
        page.wait_for_selector(f"#strip > :nth-child({time + 1})", state="attached")
    page.wait_for_selector("#rank canvas")
    assert page.locator("#binding canvas").count() >= K + 1
    page.click("#new")
    wait_for_step(page, 0)
    page.screenshot(path=pictures / "explorer-exported.png", full_page=True)
    page.set_viewport_size({"width": 375, "height": 812})
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_a_goal_is_reached(opened):
    page, _ = opened
    sync_api = pytest.importorskip("playwright.sync_api")
    page.click("#goal-open")
    page.click("#goal-shuffle")
    page.click("#goal-plan")
    sync_api.expect(page.locator("#goal-text")).to_contain_text("The goal is reached.", timeout=60_000)
    assert np.array_equal(canvas(page, "truth"), canvas(page, "goal-picture"))


def test_the_page_is_small(exported):
    assert exported.stat().st_size < 3_000_000
