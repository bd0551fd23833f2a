"""What travels with the package: inside it in a wheel, beside it in a checkout or an editable install."""

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent.parent


def shipped(name: str) -> Path:
    """The folder `templates` or `docs`. Raises `FileNotFoundError` where an installation lacks it."""
    for folder in (_PACKAGE / name, _PACKAGE.parent / name):
        if folder.is_dir():
            return folder
    raise FileNotFoundError(f"{name} is missing from {_PACKAGE}; install nanobot again")
