"""Object-oriented world models and an honest measure of their compositional generalization."""

from howm.version import __version__

__all__ = ["__version__"]
