"""What travels to a campaign's machine beside the tree. The kernels that it starts with and leaves,
as one archive: filled where there is no GPU (fill.py) or brought back from one; its first member
says for which device and by which generator they were made; where that is another, all are refused.
And the command for the machine's CPU, packed."""
import io
import json
import lzma
import os
import re
import tarfile

ARCHIVE = "kernels.tar.gz"
FITS = "fits.json"
KERNEL = re.compile(r"[0-9a-f]{32}\.kernel")
COMMAND = "anydim.xz"  # for the machine's CPU
MOST_BYTES = 15 << 20  # a file that is brought back has 16 MiB at most


def fits(information):
    return {name: information.get(name, "") for name in ("code target", "code generator")}


def unpack(archive, folder, wanted):
    """How many kernels of the archive `folder` has now; throws ValueError, saying why, where they
    were made for something else than `wanted`."""
    try:
        with tarfile.open(archive, "r:gz") as packed:
            made = json.load(packed.extractfile(FITS))
            different = [
                f"{name} was {made.get(name)}, here {value}" for name, value in wanted.items()
                if made.get(name) != value]
            if different:
                raise ValueError(f"the kernels of {archive} are refused: {', '.join(different)}")
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            count = 0
            for member in packed:
                if member.isfile() and KERNEL.fullmatch(member.name):
                    count += 1
                    if not (folder / member.name).exists():
                        # As the cache itself does: a file is there whole or not at all.
                        partial = folder / f"{member.name}.{os.getpid()}.partial"
                        partial.write_bytes(packed.extractfile(member).read())
                        partial.rename(folder / member.name)
            return count
    except (OSError, EOFError, KeyError, tarfile.TarError) as error:
        raise ValueError(f"the kernels of {archive} cannot be read: {error}") from error


def pack(folder, archive, made):
    """The kernels used last, as many as may come back; the archive of before is there until the new
    one is whole."""
    kernels = sorted(((each.stat().st_mtime, each) for each in folder.glob("*.kernel")),
                     reverse=True)
    partial = archive.with_name(archive.name + ".partial")
    with open(partial, "wb") as file, tarfile.open(fileobj=file, mode="w:gz",
                                                   compresslevel=1) as packed:
        for name, data in ((FITS, lambda: json.dumps(made).encode()), *((each.name, each.read_bytes)
                                                                        for _, each in kernels)):
            entry, content = tarfile.TarInfo(name), data()
            if file.tell() + len(content) > MOST_BYTES:
                break
            entry.size = len(content)
            packed.addfile(entry, io.BytesIO(content))
    partial.rename(archive)


def pack_command(program, packed):
    packed.write_bytes(lzma.compress(program.read_bytes()))


def unpack_command(packed, program):
    """Throws ValueError where it was not carried, or cannot be read."""
    if program.exists():
        return
    program.parent.mkdir(parents=True, exist_ok=True)
    partial = program.with_suffix(".partial")
    try:
        partial.write_bytes(lzma.decompress(packed.read_bytes()))
    except FileNotFoundError:
        raise ValueError(
            f"{packed} is not there: gpu_campaign.sh --fill makes it where build/portable has the command"
        ) from None
    except (OSError, lzma.LZMAError) as error:
        raise ValueError(f"{packed} cannot be unpacked: {error}") from error
    partial.chmod(0o755)
    partial.rename(program)
