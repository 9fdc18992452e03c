"""Read the fenced blocks of a Markdown page, and compare real answers with those that the page shows.

The first word of a fence is the kind of the block:

    sh, python    a script, which is run
    console       commands after `$ `, each with its output; a trailing backslash continues a command
    json, text    the answer to the previous block, or an illustration if it is marked `no-run`
    yaml, toml    a file; `file=NAME` writes it for the blocks after it
    mermaid       a diagram

Further words are `no-run: REASON` for a block that is not run, and `exit=N` for the expected exit status.

In an answer `…` matches anything. Inside a line it matches any text. On a separate line it matches any number of lines. In JSON
it matches any value, any further items of a list, or any further keys of an object. A number with a decimal point is compared
to the number of digits shown.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Iterator
from typing import Any

RUN = {"sh", "python", "console"}
ANSWER = {"json", "text"}
OTHER = {"yaml", "toml", "mermaid"}
ANY = "…"


class Wrong(Exception):
    """A page breaks the rules above, or an answer differs."""


@dataclasses.dataclass
class Block:
    """One fenced block."""

    line: int
    kind: str
    text: str
    no_run: str | None = None
    status: int = 0
    file: str | None = None
    answer: Block | None = None


def blocks(page: str) -> list[Block]:
    """Returns the blocks of a page. Each answer belongs to the block that it answers.

    >>> [(b.kind, b.answer and b.answer.text) for b in blocks("```sh\\nls\\n```\\nprints\\n```text\\na\\n```\\n")]
    [('sh', 'a\\n')]
    >>> blocks("```text\\na\\n```\\n")
    Traceback (most recent call last):
    docblocks.Wrong: line 1: nothing is run before this answer; mark it `no-run: REASON` if it is an illustration
    """
    found: list[Block] = []
    unanswered = None
    for block in fences(page):
        if block.kind in RUN and block.no_run is None:
            unanswered = block
            found.append(block)
        elif block.kind in ANSWER and block.no_run is None:
            if unanswered is None:
                raise Wrong(f"line {block.line}: nothing is run before this answer; mark it `no-run: REASON` if it is an illustration")
            unanswered.answer, unanswered = block, None
        else:
            unanswered = None
            found.append(block)
    return found


def fences(page: str) -> Iterator[Block]:
    """Yields every fenced block in order. Refuses indented blocks, because nothing would run them."""
    lines = page.splitlines()
    at, in_list = 0, False
    while at < len(lines):
        line = lines[at]
        if line.startswith("    ") and not in_list and not lines[at - 1].strip():
            raise Wrong(f"line {at + 1}: there is an indented block; put it between fences")
        if line.strip() and not line.startswith(" "):
            in_list = bool(re.match(r"[-*] |\d+\. ", line))
        if line.startswith("```"):
            end = lines.index("```", at + 1)
            yield described(at + 1, line[3:].strip(), "".join(text + "\n" for text in lines[at + 1 : end]))
            at = end
        at += 1


def described(line: int, info: str, text: str) -> Block:
    """Returns a block with the properties that its fence sets.

    >>> described(1, "console exit=2", "").status
    2
    >>> described(1, "sh no-run: needs a card", "").no_run
    'needs a card'
    """
    words, mark, reason = info.partition("no-run:")
    kind, *rest = words.split() or [""]
    if kind not in RUN | ANSWER | OTHER:
        raise Wrong(f"line {line}: a block is one of {', '.join(sorted(RUN | ANSWER | OTHER))}, not `{kind}`")
    block = Block(line, kind, text, reason.strip() if mark else None)
    for word in rest:
        key, _, value = word.partition("=")
        if key == "exit":
            block.status = int(value)
        elif key == "file":
            block.file = value
        else:
            raise Wrong(f"line {line}: `{word}` is neither exit=N, file=NAME nor no-run: REASON")
    return block


def commands(block: Block) -> list[tuple[str, str]]:
    """Returns the commands of a console block, each with the output that is shown.

    >>> commands(Block(1, "console", "$ a \\\\\\n  b\\nx\\n$ c\\n"))
    [('a \\\\\\n  b', 'x\\n'), ('c', '')]
    """
    found: list[list[str]] = []
    continued = False
    for line in block.text.splitlines():
        if continued:
            found[-1][0] += "\n" + line
        elif line.startswith("$ "):
            found.append([line[2:], ""])
        elif found:
            found[-1][1] += line + "\n"
        else:
            raise Wrong(f"line {block.line}: a console block begins with `$ `")
        continued = found[-1][0].endswith("\\") and not found[-1][1]
    return [(command, output) for command, output in found]


def same_number(shown: str, real: float) -> bool:
    """Returns whether a number equals the one shown, to the number of digits shown.

    >>> same_number("462.3", 462.29004), same_number("0.93", 0.95), same_number("6", 6), same_number("6", 6.2)
    (True, False, True, False)
    """
    digits = len(shown.partition(".")[2].partition("e")[0])
    # The last digit may differ by one, because kernels of different machines round differently.
    return abs(float(shown) - real) <= (1.001 * 10.0**-digits if digits else 0)


def same_text(shown: str, real: str) -> bool:
    """Returns whether a text equals the one shown. Several spaces equal one space, so columns may have other widths.

    >>> same_text("a 0.25 …\\n", "a   0.251 b c\\n"), same_text("a\\n…\\nz\\n", "a\\nb\\nc\\nz\\n"), same_text("a\\n", "b\\n")
    (True, True, False)
    """
    pattern, numbers = "", []
    for line in shown.strip().splitlines():
        if line.strip() == ANY:
            pattern += r"(?:.*\n)*?"
            continue
        for part in re.split(r"(-?\d+\.\d+(?![.\d])|…| +)", line.strip()):
            if re.fullmatch(r"-?\d+\.\d+", part):
                pattern += r"(-?\d+\.\d+)"
                numbers.append(part)
            elif part == ANY:
                pattern += ".*?"
            else:
                pattern += " +" if part and not part.strip() else re.escape(part)
        pattern += r" *\n"
    real = "".join(line.strip() + "\n" for line in real.strip().splitlines())
    match = re.fullmatch(pattern, real)
    return bool(match) and all(same_number(a, float(b)) for a, b in zip(numbers, match.groups()))


class Number(str):
    """A number in JSON, as it is written."""


def same_json(shown: str, real: str) -> list[str]:
    """Returns the differences between an answer in JSON and the one shown.

    >>> same_json('{"a": "x…", "b": [1.5, …], "c": {…}}', '{"a": "xyz", "b": [1.4999, 2], "c": {"d": 1}}')
    []
    >>> same_json('{"a": 1}', '{"a": 2, "b": 3}')
    ['a: the page shows 1, the answer has 2', 'b: the page does not show it']
    """

    def quoted(match: re.Match) -> str:
        before, after = match.groups()
        stands = f'"{ANY}": "{ANY}"' if before and after else f'"{ANY}"'
        return f"{before or ''}{stands}{after or ''}"

    parts = re.split(r'("(?:[^"\\]|\\.)*")', shown)
    parts[::2] = [re.sub(r"([{,]\s*)?…(\s*})?", quoted, part) for part in parts[::2]]
    try:
        expected = json.loads("".join(parts), parse_float=Number, parse_int=Number)
    except ValueError as error:
        return [f"the answer shown is not JSON: {error}"]
    try:
        actual = json.loads(real)
    except ValueError:
        return [f"the answer is not JSON: {real[:2000]}"]
    return list(differences("", expected, actual))


def differences(at: str, shown: Any, real: Any) -> Iterator[str]:
    """Yields each place where two JSON values differ."""
    if shown == ANY:
        return
    if isinstance(shown, dict) and isinstance(real, dict):
        for key in shown.keys() - real.keys() - {ANY}:
            yield f"{at}{key}: the answer does not have it"
        for key, value in real.items():
            if key in shown:
                yield from differences(f"{at}{key}.", shown[key], value)
            elif ANY not in shown:
                yield f"{at}{key}: the page does not show it"
    elif isinstance(shown, list) and isinstance(real, list):
        is_open = bool(shown) and shown[-1] == ANY
        items = shown[:-1] if is_open else shown
        if len(real) < len(items) or (len(real) > len(items) and not is_open):
            yield f"{at[:-1]}: the page shows {len(items)} items, the answer has {len(real)}"
        for index, (a, b) in enumerate(zip(items, real)):
            yield from differences(f"{at}{index}.", a, b)
    elif isinstance(shown, Number):
        if isinstance(real, bool) or not isinstance(real, (int, float)) or not same_number(shown, real):
            yield f"{at[:-1]}: the page shows {shown}, the answer has {json.dumps(real)}"
    elif isinstance(shown, str) and isinstance(real, str):
        if not re.fullmatch(".*".join(map(re.escape, shown.split(ANY))), real, re.DOTALL):
            yield f"{at[:-1]}: the page shows {shown!r}, the answer has {real!r}"
    elif type(shown) is not type(real) or shown != real:
        yield f"{at[:-1]}: the page shows {json.dumps(shown)}, the answer has {json.dumps(real)}"
