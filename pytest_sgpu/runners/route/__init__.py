"""The routing commands: what they read, decide by the pure rules, write and print."""
