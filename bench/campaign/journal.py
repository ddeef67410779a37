"""What campaigns found, a line of JSON each, in the file before anything else is done: a campaign
that is killed has lost nothing that had ended. A line is either the head of a command ({"command",
"identity", "boot"}) or a case with what became of it, under the head before it."""
import hashlib
import json
import os
import pathlib

NAME = "cases.jsonl"
# What a case says of where files lie and nothing of what it does: machines and commands differ in
# it.
PLACES = ("source", "expected", "folder")


def boot():
    """The machine since it was started: times taken under another boot are another machine's."""
    return pathlib.Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()


def digest(*paths):
    """Of the contents of files, and of those of folders, with their names."""
    hashed = hashlib.sha256()
    for path in map(pathlib.Path, paths):
        for file in sorted(each for each in path.rglob("*")
                           if each.is_file()) if path.is_dir() else [path]:
            hashed.update(f"{file.relative_to(path.parent)}\0".encode() +
                          hashlib.sha256(file.read_bytes()).digest())
    return hashed.hexdigest()[:16]


def key_of(part, case, avoid):
    """What a case does, and what it may use."""
    def without_places(value):
        if isinstance(value, dict):
            return {
                name: without_places(each) for name, each in value.items() if name not in PLACES}
        return [without_places(each) for each in value] if isinstance(value, list) else value
    return json.dumps([part, without_places(case), avoid], sort_keys=True)


def read(path):
    """(head, case) of every line; one that was cut off by a kill is left out."""
    head = {}
    try:
        lines = path.read_bytes().split(b"\n")
    except FileNotFoundError:
        return
    for line in lines:
        try:
            said = json.loads(line)
        except ValueError:
            continue
        if "command" in said:
            head = said
        elif "case" in said:
            yield head, said


def differences(identity, other):
    """What of two identities is not the same, in words."""
    return [
        f"{name} was {other.get(name)}, here {identity.get(name)}"
        for name in {**identity, **other}
        if identity.get(name) != other.get(name)]


class Record:
    """Cases with what became of them. Entries of `timed` parts (up to the first slash) hold for one
    boot alone."""

    def __init__(self, timed):
        self.timed = timed
        self.head = None
        # All have one identity: those of earlier commands that hold, then the command's own.
        self.entries = []
        self.known = {}  # the latest by key
        self.refused = []  # why entries of earlier commands do not hold

    @classmethod
    def of(cls, folder, timed):
        """What the last command that wrote into `folder` had found."""
        record = cls(timed)
        record.head = {"command": [], "identity": {}, "boot": ""}
        for head, _ in read(folder / NAME):
            record.head = head
        record.learn([folder / NAME])
        return record

    def learn(self, paths):
        """From files of earlier commands, as far as it holds for this one."""
        refused, met = {}, set()
        for head, entry in (each for path in paths for each in read(path)):
            line = _line(entry)
            if line in met:
                continue
            met.add(line)
            different = differences(self.head["identity"], head.get("identity", {}))
            if different:
                refused[", ".join(different)] = refused.get(", ".join(different), 0) + 1
            elif self.head["boot"] == head["boot"] or entry["part"].split("/")[0] not in self.timed:
                self.add(entry)
        self.refused = [
            f"{count} cases of an earlier command are refused: {why}"
            for why, count in refused.items()]

    def add(self, entry):
        self.entries.append(entry)
        self.known[key_of(entry["part"], entry["case"], entry.get("avoid", []))] = entry

    def latest(self):
        """The last of each part's cases, in the order in which they were first met."""
        last = {}
        for entry in self.entries:
            last[entry["part"], entry["case"]["id"]] = entry
        return list(last.values())


class Journal(Record):
    """A record that is written to a file in `kept`, which outlives a command, and to one in `told`,
    which is the command's own, before anything else is done."""

    def __init__(self, kept, told, timed):
        super().__init__(timed)
        self.paths = [folder / NAME for folder in (kept, told)]
        self.files = []
        for path in self.paths:
            path.parent.mkdir(parents=True, exist_ok=True)
            broken = path.exists() and path.read_bytes()[-1:] not in (b"", b"\n")
            self.files.append(os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644))
            if broken:
                _write_whole(self.files[-1], b"\n")

    def begin(self, command, identity, folders=()):
        """What earlier commands found, and what lies in `folders`, is known from here on. Entries
        that came before the command could tell what it runs on are written now."""
        own, self.entries = self.entries, []
        self.head = {"command": command, "identity": identity, "boot": boot()}
        there = [{_line(entry) for _, entry in read(path)} for path in self.paths]
        self.learn([*(folder / NAME for folder in folders), *self.paths])
        for file, lines in zip(self.files, there):
            _write_whole(
                file,
                _line(self.head) +
                b"".join(line for line in map(_line, self.entries) if line not in lines))
        for entry in own:
            self.append(entry)

    def append(self, entry):
        if self.head is not None:
            for file in self.files:
                _write_whole(file, _line(entry))
        self.add(entry)

    def close(self):
        for file in self.files:
            os.close(file)
        self.files = []


def _line(entry):
    return json.dumps(entry).encode() + b"\n"


def _write_whole(file, data):
    while data:
        data = data[os.write(file, data):]
