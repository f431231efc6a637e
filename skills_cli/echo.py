"""Says what it was told: shows that a call arrives, and under which trace id."""

from openskills.skillkit.entry import main


def echo(text: str) -> dict[str, str]:
    """Give the text back."""
    return {"echoed": text}


if __name__ == "__main__":
    main(echo, version="0.1.0")
