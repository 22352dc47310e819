"""Draw docs/explorer.gif: a person plays an unseen scene in an exported page, then the model plans to a goal.

    python docs/animate.py

It needs the extra `browser` and Chromium (`make test-browser` installs both).
"""

import io
import shutil
import tempfile
from pathlib import Path

from PIL import Image
from playwright.sync_api import expect, sync_playwright

from howm.explorer.export.page import export_page

OUT = Path(__file__).with_name("explorer.gif")
WIDTH, SCALE, COLOURS = 1120, 0.75, 128
PLAYED = "ddsssswdssdsaw"  # arrow keys, two for each object in turn; two moves are blocked
KEYS = {"w": "ArrowUp", "d": "ArrowRight", "s": "ArrowDown", "a": "ArrowLeft"}
SEEDED = "let seed = 12; Math.random = () => { seed = (seed * 16807) % 2147483647; return seed / 2147483647; };"


class Film:
    """Screenshots of the part of a page from one element to another, and how long each is shown."""

    def __init__(self, page, first, last):
        self.page, self.first, self.last = page, first, last
        self.frames, self.milliseconds = [], []

    def shoot(self, milliseconds):
        self.page.wait_for_timeout(400)  # until nothing glides any more
        top, bottom = (self.page.locator(name).bounding_box() for name in (self.first, self.last))
        clip = {"x": 0, "y": top["y"] - 12, "width": WIDTH, "height": bottom["y"] + bottom["height"] - top["y"] + 24}
        shot = Image.open(io.BytesIO(self.page.screenshot(clip=clip, full_page=True))).convert("RGB")
        self.frames.append(
            shot.resize((round(shot.width * SCALE), round(shot.height * SCALE)), Image.Resampling.LANCZOS)
        )
        self.milliseconds.append(milliseconds)

    def save(self, path):
        height = max(frame.height for frame in self.frames)
        palette = self.frames[len(self.frames) // 2].quantize(COLOURS)
        padded = []
        for frame in self.frames:
            canvas = Image.new("RGB", (frame.width, height), frame.getpixel((0, 0)))
            canvas.paste(frame)
            padded.append(canvas.quantize(palette=palette, dither=Image.Dither.NONE))
        padded[0].save(path, save_all=True, append_images=padded[1:], duration=self.milliseconds, loop=0, optimize=True)


def play(page, film):
    film.shoot(1200)
    scene = page.evaluate("backend.scene")
    for time, letter in enumerate(PLAYED, start=1):
        page.locator(f"#board [data-object='{scene[(time - 1) // 2 % len(scene)]}']").focus()
        page.keyboard.press(KEYS[letter])
        expect(page.locator("#time-now")).to_have_text(str(time))
        film.shoot(450)
    film.shoot(1500)


def main():
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        exported = export_page("howm-shapes-n10", Path(folder) / "page.html", sizes=[5])
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": WIDTH, "height": 800})
        page.add_init_script(SEEDED)
        page.goto(exported.as_uri())
        page.wait_for_selector("body:not(.loading)")
        film = Film(page, "#scene", ".timeline")
        play(page, film)
        film.save(OUT)
        browser.close()
    print(f"{OUT} ({OUT.stat().st_size:,} bytes, {len(film.frames)} frames)")


if __name__ == "__main__":
    main()
