"""A city watched from above: the scenario of the operators paper, section 1 and 2.1."""
