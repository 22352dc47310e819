"""The explorer in a browser: played by mouse and by keyboard, with one model and with two (`make test-browser`)."""

import numpy as np
import pytest
import torch
from drift_world import Drift
from explorer_client import serving
from own_models import flat

import howm
from howm.explorer.stage import open_stage
from howm.models.registry import build_model
from howm.runs.config import configure

pytestmark = pytest.mark.browser
SHAPES = "howm-shapes-n10"
DESKTOP = {"viewport": {"width": 1280, "height": 900}}
PHONE = {"viewport": {"width": 375, "height": 812}, "device_scale_factor": 2, "has_touch": True}
READY = "!document.body.classList.contains('loading') && document.body.dataset.waiting === '0'"
PIXELS = """canvas => Array.from(canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data)"""


@pytest.fixture(scope="module")
def stage():
    return open_stage(SHAPES)


@pytest.fixture
def open_page(browser):
    """Open the page of a server; at the end it must have complained of nothing and asked nobody else."""
    contexts, errors, requests = [], [], []

    def opened(server, **options):
        contexts.append(browser.new_context(**(options or DESKTOP)))
        page = contexts[-1].new_page()
        page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("request", lambda request: requests.append((request.url, server.url)))
        page.goto(server.url)
        until(page, READY)
        return page

    opened.errors = errors
    yield opened
    for context in contexts:
        context.close()
    assert errors == []
    assert all(url.startswith((own, "data:")) for url, own in requests)


def until(page, expression):
    """Wait until an expression is true. (Playwright's own way would be refused by the page's policy.)"""
    for _ in range(2000):
        if page.evaluate(expression):
            return
        page.wait_for_timeout(10)
    raise AssertionError(f"it never came about: {expression}")


def pixels(page, selector):
    canvas = page.locator(selector)
    height, width = canvas.evaluate("canvas => [canvas.height, canvas.width]")
    return np.array(canvas.evaluate(PIXELS), dtype=np.uint8).reshape(height, width, 4)[..., :3]


def at_step(page, time):
    until(page, f"document.getElementById('time-now').textContent === '{time}'")


def actions_of(page, server):
    """What was done in the only session that the server has been asked for last."""
    session = list(server.api.sessions._open.values())[-1]
    return session.rollout.actions


def press(page, keys, start=0):
    for time, key in enumerate(keys, start + 1):
        page.keyboard.press(key)
        at_step(page, time)


def drag(page, name, by):
    """Drag an object by some cells of the picture."""
    box = page.locator(f".object[data-object='{name}']").bounding_box()
    cell = page.locator("#truth").bounding_box()["width"] / 5
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x + by[0] * cell, y + by[1] * cell, steps=4)
    until(page, "document.querySelectorAll('#strip li').length > 0")
    return page.mouse.up


def compare_with_the_model(page, server, first):
    """Every frame of the time line shows what the model itself draws, to the pixel."""
    actions = actions_of(page, server)
    drawn = howm.imagine(howm.load(SHAPES), first, actions).pictures[0]
    for time, picture in enumerate((drawn.clamp(0, 1) * 255).round().to(torch.uint8).numpy()):
        page.evaluate("time => { const slider = document.getElementById('time'); slider.value = time; "
                      "slider.dispatchEvent(new Event('input')); }", time)  # fmt: skip
        at_step(page, time)
        np.testing.assert_array_equal(pixels(page, "#imagined-0"), picture)


def test_ten_moves_by_keyboard_alone(stage, open_page, pictures):
    with serving(stage) as server:
        page = open_page(server)
        first = pixels(page, "#truth")
        for _ in range(60):  # Tab leads to an object
            page.keyboard.press("Tab")
            if page.evaluate("document.activeElement.classList.contains('object')"):
                break
        press(page, ["ArrowRight", "ArrowDown", "ArrowLeft", "ArrowUp", "3"])
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.classList.contains('object')")
        press(page, ["ArrowUp", "ArrowLeft", "ArrowDown", "ArrowRight", "1"], start=5)
        assert len(actions_of(page, server)) == 10
        compare_with_the_model(page, server, first)
        page.keyboard.press("u")
        at_step(page, 9)
        page.keyboard.press("Control+z")
        at_step(page, 8)
        page.screenshot(path=pictures / "explorer.png", full_page=True)
        assert page.locator("#said").text_content().startswith("Undone")


def test_ten_moves_by_mouse(stage, open_page, pictures):
    """Every free direction of every object is tried by dragging it one cell; then actions are clicked."""
    with serving(stage) as server:
        page = open_page(server)
        first = pixels(page, "#truth")
        names = [int(button.get_attribute("data-object")) for button in page.locator(".object").all()]
        for name in names:
            drag(page, name, (1, 0))()
            until(page, READY)
        dragged = actions_of(page, server)
        assert {action // 4 for action in dragged} == set(names)
        assert {action % 4 for action in dragged} == {1}  # to the right
        for _ in range(10 - len(dragged)):
            before = len(actions_of(page, server))
            page.locator("#actions button").first.click()
            at_step(page, before + 1)
        assert actions_of(page, server)[-1] % 4 == 0
        compare_with_the_model(page, server, first)
        page.locator("#restart").click()
        at_step(page, 0)
        np.testing.assert_array_equal(pixels(page, "#truth"), first)


def test_panels_follow_the_play(stage, open_page):
    with serving(stage) as server:
        page = open_page(server)
        page.locator(".object").first.focus()
        press(page, ["ArrowRight", "ArrowDown"])
        page.wait_for_selector(".rivals")
        assert page.locator("#rank .big").text_content().startswith("1 of ")
        assert page.locator("#rank .rivals canvas").count() == 5
        assert page.locator("#binding thead canvas").count() == 6
        assert page.locator("#binding tbody tr").count() == 5
        page.locator("#all-rows").click()
        until(page, "document.querySelectorAll('#binding tbody tr').length === 10")
        assert page.locator("#embedding .heat").count() == 15


def test_walk_search_and_chosen_objects(stage, open_page, pictures):
    with serving(stage) as server:
        page = open_page(server)
        page.locator("#surprise").click()
        at_step(page, 30)
        page.locator("#break").click()
        page.wait_for_selector(".found button")
        page.screenshot(path=pictures / "explorer-search.png", full_page=True)
        steps = page.locator(".found button").first.text_content().split(": ")[1].split(" ")[0]
        page.locator(".found button").first.click()
        at_step(page, int(steps))
        page.locator("#choose").click()
        for button in page.locator("#sprites button").all():
            if (button.get_attribute("aria-pressed") == "true") != (
                button.get_attribute("aria-label")[:8] in ("Object 1", "Object 7")
            ):
                button.click()
        page.locator("#library-play").click()
        until(page, "document.querySelectorAll('.object').length === 2")
        assert [button.get_attribute("data-object") for button in page.locator(".object").all()] == ["1", "7"]


def test_a_goal_is_arranged_and_reached(stage, open_page, pictures):
    with serving(stage) as server:
        page = open_page(server)
        page.locator("#goal-open").click()
        until(page, "document.activeElement.closest('#goal-board') !== null")
        start = pixels(page, "#goal-picture")
        np.testing.assert_array_equal(start, pixels(page, "#truth"))
        for _ in range(5):  # any object that is free to move
            for key in ("ArrowUp", "ArrowLeft", "ArrowUp"):
                page.keyboard.press(key)
            page.keyboard.press("Tab")
        until(page, READY)
        goal = pixels(page, "#goal-picture")
        assert (goal != start).any()
        page.locator("#goal-plan").click()
        until(page, "document.getElementById('goal-text').textContent.endsWith('The goal is reached.')")
        np.testing.assert_array_equal(pixels(page, "#truth"), goal)
        page.screenshot(path=pictures / "explorer-goal.png", full_page=True)
        np.testing.assert_array_equal(pixels(page, "#goal-picture"), goal)
        page.locator("#goal-close").click()
        assert page.locator("#goal").is_hidden()


def test_a_search_can_be_cancelled(stage, open_page):
    with serving(stage) as server:
        page = open_page(server)
        page.evaluate("document.getElementById('break').click(); document.getElementById('search-cancel').click()")
        until(page, "document.getElementById('search-text').textContent === 'Cancelled.'")


def test_a_second_model_beside_it(stage, open_page, pictures):
    other = build_model("cswm-k", stage.world.spec(5), configure("cswm-k", "cpu").model, seed=0).eval()
    with serving(open_stage(SHAPES, other)) as server:
        page = open_page(server)
        page.locator(".object").first.focus()
        press(page, ["ArrowRight", "ArrowDown"])
        assert page.locator(".model").count() == 2
        assert page.locator("#imagined-1").locator("..").get_attribute("class") == "frame nearest"
        page.wait_for_selector(".rivals")
        distances = [page.locator(f"#imagined-text-{m}").text_content().split()[1] for m in (0, 1)]
        until(page, f"document.querySelector('#rank .rivals b').textContent === '{distances[0]}'")
        page.locator("#tabs label").nth(1).click()
        until(page, f"document.querySelector('#rank .rivals b').textContent === '{distances[1]}'")
        until(page, "document.querySelectorAll('#binding thead canvas').length === 5")
        assert "cannot draw" in page.locator("#notes").text_content()
        page.screenshot(path=pictures / "explorer-two.png", full_page=True)


def test_a_world_of_one_s_own_gets_labelled_buttons(open_page, pictures):
    world = Drift(n=6)
    with serving(open_stage(flat(world, 3), world=world)) as server:
        page = open_page(server)
        assert page.locator("#actions button").all_text_contents() == ["→", "↓", "2"]  # two go straight
        page.locator(".object").first.focus()
        press(page, ["1", "2", "3", "ArrowRight"])
        name = int(page.locator(".object").first.get_attribute("data-object"))
        assert actions_of(page, server) == [3 * name, 3 * name + 1, 3 * name + 2, 3 * name]
        assert page.locator("#binding-card").is_hidden()
        page.screenshot(path=pictures / "explorer-own.png", full_page=True)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_phone_without_sideways_scroll(scheme, stage, open_page, pictures):
    with serving(stage) as server:
        page = open_page(server, **PHONE, color_scheme=scheme)
        page.locator(".object").nth(1).tap()
        page.locator("#actions button").nth(1).tap()
        at_step(page, 1)
        page.wait_for_selector(".rivals")
        assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
        page.screenshot(path=pictures / f"explorer-phone-{scheme}.png", full_page=True)
        page.screenshot(path=pictures / f"explorer-phone-{scheme}-top.png")
        small = page.evaluate(
            "[...document.querySelectorAll('main button')].map(b => b.getBoundingClientRect())"
            ".filter(box => box.width > 0 && (box.width < 24 || box.height < 24)).length"
        )
        assert small == 0  # can be hit with a thumb


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_all_text_can_be_read_and_all_controls_have_names(scheme, stage, open_page):
    """Contrast of 4.5 to 1, and a name for whatever can be focused or seen as a picture."""
    with serving(stage) as server:
        page = open_page(server, **DESKTOP, color_scheme=scheme)
        page.locator(".object").first.focus()
        press(page, ["ArrowRight"])
        page.wait_for_selector(".rivals")
        assert page.evaluate(CONTRAST) == []
        assert page.evaluate(UNNAMED) == []


def test_what_goes_wrong_is_said_in_words(stage, open_page):
    with serving(stage) as server:
        page = open_page(server)
        server.api.sessions._open.clear()
        page.evaluate("document.querySelector('#actions button').click()")
        page.wait_for_selector("#error:not([hidden])")
        assert "session is closed" in page.locator("#error").text_content()
        page.locator("#new").click()
        page.wait_for_selector("#error", state="hidden")
        page.locator(".object").first.focus()
        press(page, ["ArrowRight"])
    assert all("410 (Gone)" in error for error in open_page.errors)  # the browser says it, too
    open_page.errors.clear()


CONTRAST = """() => {
  const parse = (text) => {
    const canvas = document.createElement('canvas').getContext('2d');
    canvas.fillStyle = text;
    canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data];
  };
  const light = ([r, g, b]) => {
    const linear = (value) => (value / 255 <= 0.03928 ? value / 255 / 12.92 : ((value / 255 + 0.055) / 1.055) ** 2.4);
    return 0.2126 * linear(r) + 0.7152 * linear(g) + 0.0722 * linear(b);
  };
  const behind = (node) => {
    for (let at = node; at; at = at.parentElement) {
      const colour = parse(getComputedStyle(at).backgroundColor);
      if (colour[3] > 250) return colour;
    }
    return [255, 255, 255, 255];
  };
  const found = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const node = walker.currentNode.parentElement;
    const text = walker.currentNode.textContent.trim();
    if (!text || node.closest('script, noscript, :disabled, .stopped') || !node.checkVisibility()) continue;
    if (node.closest('label')?.querySelector('input:disabled')) continue;
    const [one, other] = [light(parse(getComputedStyle(node).color)), light(behind(node))].sort((a, b) => b - a);
    const ratio = (one + 0.05) / (other + 0.05);
    if (ratio < 4.5) found.push(`${text}: ${ratio.toFixed(2)}`);
  }
  return found;
}"""

UNNAMED = """() => [...document.querySelectorAll('button, input, select, canvas, [tabindex]')]
  .filter((node) => node.checkVisibility() && !node.closest('[aria-hidden=true]'))
  .filter((node) => !(node.getAttribute('aria-label') || node.getAttribute('aria-labelledby') || node.labels?.length
    || node.textContent.trim() || node.classList.contains('sprite')))
  .map((node) => node.outerHTML.slice(0, 120))"""
