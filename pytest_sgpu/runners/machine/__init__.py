"""The parts of the pure state machine: what was seen, what is asked for, one child and its watch."""
