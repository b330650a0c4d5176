"""What pytest sees of a queue: collectors and items, reports, the terminal."""
