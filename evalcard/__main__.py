"""``python -m evalcard`` is the ``evalcard`` command."""

from evalcard.cli.main import main

if __name__ == "__main__":
    main()
