"""Which runner label to ask for, and why: pure rules over texts, with chance passed in."""
