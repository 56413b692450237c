"""cef-env: correctness-efficiency frontiers in code RL (arXiv 2605.28751)."""

__version__ = "0.1.0"
