"""howm hub: share models and datasets on the Hugging Face Hub, and take them from it."""

import argparse
from pathlib import Path
from typing import Any

from howm.cli.base import add_command


def add_commands(commands: Any) -> None:
    hub = commands.add_parser("hub", help="share models and datasets on the Hugging Face Hub")
    actions = hub.add_subparsers(required=True, metavar="ACTION")

    push = add_command(actions, "push", _push, "upload a trained model or a dataset, with a card that describes it")
    push.add_argument("source", metavar="RUN_OR_DATASET", help="a run directory, a trained model or a dataset file")
    push.add_argument("repo_id", metavar="OWNER/NAME", help="the repository on the Hub; created if it does not exist")
    push.add_argument(
        "--private", action="store_true", help="upload only to a private repository; a new one is created as private"
    )
    push.add_argument(
        "--dry-run", type=Path, metavar="FOLDER", help="write what would be uploaded into a new folder instead"
    )

    pull = add_command(actions, "pull", _pull, "download a model or a dataset into a new folder")
    pull.add_argument("repo_id", metavar="OWNER/NAME", help="the repository on the Hub")
    pull.add_argument("--dataset", action="store_true", help="it is a dataset, not a model")
    pull.add_argument("-o", "--out", type=Path, required=True, help="the folder to create")


def _push(options: argparse.Namespace) -> int:
    from howm.hub.share import push

    print(push(options.source, options.repo_id, private=options.private, dry_run=options.dry_run))
    return 0


def _pull(options: argparse.Namespace) -> int:
    from howm.hub.share import pull

    print(pull(options.repo_id, options.out, "dataset" if options.dataset else "model"))
    return 0
