"""`python -m penstock`, for where the command itself isn't on the path."""

from penstock.cli import main

if __name__ == "__main__":
    main()
