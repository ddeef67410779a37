"""Real short texts: the quotations of the Debian package `fortunes`."""
import hashlib
import pathlib

FORTUNES = pathlib.Path("/usr/share/games/fortunes")


def quotations(folder):
    """Every text of the folder's files (separated by lines of a single %), white space made plain,
    without repetitions."""
    texts = set()
    for path in folder.iterdir():
        if path.is_file() and path.suffix == "":
            for part in path.read_text(encoding="utf8", errors="replace").replace("\n%\n",
                                                                                  "\0").split("\0"):
                texts.add(" ".join(part.split()))
    return texts - {"", "%"}


def shuffled(texts, seed):
    """A fixed order that looks random: by the hash of seed and text, so it survives a change of
    files or of Python."""
    return sorted(texts, key=lambda text: hashlib.sha256(f"{seed} {text}".encode()).digest())
