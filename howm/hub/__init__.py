"""Share trained models and datasets: howm.hub.push and howm.hub.pull."""

from howm.hub.share import pull, push

__all__ = ["pull", "push"]
