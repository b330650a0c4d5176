"""The lint of a child workflow, and YAML read with its places."""
