"""`python -m penstock`, for when the command `penstock` isn't on the path."""

from penstock.cli import main

if __name__ == "__main__":
    main()
