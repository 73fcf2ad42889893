"""`python -m eddyline.cli`: the command line without its script."""

from eddyline.cli import app

if __name__ == "__main__":
    app()
