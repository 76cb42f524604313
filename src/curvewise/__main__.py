"""`python -m curvewise`: the command line."""

from curvewise.cli.main import main

if __name__ == "__main__":
    main()
