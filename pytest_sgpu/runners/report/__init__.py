"""What is told of an acquisition: summary, timeline, and the files through which a step speaks to GitHub."""
