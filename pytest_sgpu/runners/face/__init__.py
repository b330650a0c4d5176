"""What the runner commands share: inputs as options, the screen, signals, and what they start."""
