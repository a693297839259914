"""Orders of chains that change one by one: `linked_chains`."""
