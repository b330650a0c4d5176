"""What an acquisition may take: past waits, budget, plan."""
