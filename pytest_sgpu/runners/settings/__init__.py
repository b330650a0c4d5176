"""What a coordinator or a guard was asked for: inputs and environment, checked."""
