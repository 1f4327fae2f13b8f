"""``python -m shunter`` is ``shunter``."""

from shunter.cli.main import main

if __name__ == "__main__":
    main()
