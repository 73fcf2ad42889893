"""`python -m eddyline.cli`: the command line without its script."""

from eddyline.cli import main

if __name__ == "__main__":
    main()
