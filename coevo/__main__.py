"""`python -m coevo`: the command `coevo`."""

from coevo.cli import main

if __name__ == "__main__":
    main()
