"""`python -m culpa` is the same as the command `culpa`."""

from culpa.cli import main

if __name__ == "__main__":
    main()
