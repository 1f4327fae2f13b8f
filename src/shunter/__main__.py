"""``shunter`` and ``python -m shunter``: imports nothing before Ctrl-C is expected."""

import sys


def main() -> None:
    """The entry point."""
    try:
        from shunter.cli.main import main as run

        run()
    except KeyboardInterrupt:  # while the commands themselves are imported
        sys.stderr.write("interrupted: stopped\n")
        raise SystemExit(130) from None


if __name__ == "__main__":
    main()
