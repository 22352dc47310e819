"""Let a trained model imagine what actions do in a scene that it has never seen, and draw it (seconds).

python examples/imagine.py -o imagined.png
"""

import argparse

import numpy as np
from PIL import Image

import howm
from howm.worlds.captions import action_names, captioned

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("-o", "--out", default="imagined.png", help="the picture to write")
parser.add_argument("--seed", type=int, default=0, help="of the scene and the actions")
options = parser.parse_args()

model = howm.load("howm-shapes-n10")
world = howm.make_world("shapes", n=10)
scene = np.array(howm.unseen_scenes(model, 1, options.seed).scenes)
rng = np.random.default_rng(options.seed)
state = world.reset(scene, rng)
actions = 4 * rng.choice(scene[0], 10) + rng.integers(4, size=10)

imagined = howm.imagine(model, world.render(scene, state)[0], actions).pictures[0]
truth = [state]
for action in actions:
    truth.append(world.step(scene, truth[-1], np.array([action])))
frames = np.concatenate([world.render(scene, one) for one in truth])
drawn = (np.clip(np.asarray(imagined), 0, 1) * 255).astype(np.uint8)
names = ["start", *action_names(world, actions)]
sheet = captioned(np.concatenate([frames, drawn]), [*names, *(["imagined"] * len(drawn))], columns=11, width=100)
Image.fromarray(sheet).save(options.out)
print(options.out)
print(f"mean square error of the imagined pixels: {np.square((drawn - frames.astype(float)) / 255).mean():.2e}")
