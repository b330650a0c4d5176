"""The shell side: what a suite script sources, and what `sgpu init` writes."""
