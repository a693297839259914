"""The command line, mostly called in this process; where that would prove little, as a program."""
