"""One queue for every GPU test that a repository owns, as a pytest plugin."""

__version__ = "0.1.0"
