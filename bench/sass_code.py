"""The instructions of machine code for sm_90, read off nvdisasm's text."""
import re

MASK = 0xFFFFFFFF  # of a register


def is_predicate(text):
    return re.fullmatch(r"!?U?P(T|\d+)", text) is not None


def split(text):
    """Operands between commas that are in no brackets."""
    parts, depth, start = [], 0, 0
    for i, c in enumerate(text):
        if c in "([":
            depth += 1
        elif c in ")]":
            depth -= 1
        elif c == "," and depth == 0:
            parts.append(text[start:i].strip())
            start = i + 1
    last = text[start:].strip()
    return parts + [last] if last else parts


class Code:
    """Entries of a module and their instructions: (guard, opcode, operands)."""

    def __init__(self, text):
        self.entries = {}
        instructions, labels, addresses = None, None, None
        for line in text.splitlines():
            section = re.match(r"\.text\.(\S+):", line)
            if section:
                instructions, labels, addresses = [], {}, {}
                self.entries[section.group(1)] = (instructions, labels, addresses)
                continue
            label = re.match(r"(\S+):\s*$", line)
            if label and instructions is not None:
                labels[label.group(1)] = len(instructions)
                continue
            found = re.match(r"\s+/\*([0-9a-f]{4,})\*/\s+(?:@(!?U?P\w+)\s+)?([A-Z][\w.]*)\s*(.*?)\s*;", line)
            if found and instructions is not None:
                addresses[int(found.group(1), 16)] = len(instructions)
                operands = [each.replace(".reuse", "") for each in split(found.group(4))]
                instructions.append((found.group(2), found.group(3), operands))
