"""`python -m coevo.cli`."""

from coevo.cli import main

if __name__ == "__main__":
    main()
