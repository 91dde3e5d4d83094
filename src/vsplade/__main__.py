"""``python -m vsplade``."""

from vsplade.cli import main

if __name__ == "__main__":
    main()
