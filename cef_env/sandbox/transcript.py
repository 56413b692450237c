"""What a terminal printed, as text to show: no control characters, and cut in the middle when long.

Works on a stream in bounded memory. Emulates no screen: escape sequences vanish, a carriage return ends a
line.
"""

import codecs
import re

# CSI and OSC sequences, then the shorter ones. A string of OSC and its like ends with BEL or ST.
_ESCAPE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)|[ -/]*[0-NO-WYZ\\`-~])")
_UNFINISHED = re.compile(r"(?:\x1b(?:\[[0-?]*[ -/]*|[\]PX^_][^\x07\x1b]*\x1b?|[ -/]*)|\r)\Z")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")
_MOST_UNFINISHED = 4096


def _visible(match: re.Match[str]) -> str:
    code = ord(match[0])
    if code < 0x20 or code == 0x7F:
        return "^" + chr(code ^ 0x40)
    return f"\\x{code & 0xFF:02x}"


def printable(text: str) -> str:
    """`text` without escape sequences; other control characters as `^G`, bytes outside UTF-8 as `\\xff`."""
    if not _CONTROL.search(text):
        return text
    text = _ESCAPE.sub("", text).replace("\r\n", "\n").replace("\r", "\n")
    return _CONTROL.sub(_visible, text)


class Transcript:
    """Takes bytes, keeps the first and the last half of `most` characters and counts what is between."""

    def __init__(self, most: int) -> None:
        self._first = most - most // 2
        self._last = most // 2
        # surrogateescape: each byte that is no UTF-8 becomes one character, which `printable` shows.
        self._decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")
        self._held = ""
        self._head: list[str] = []
        self._room = self._first
        self._tail = ""
        self.cut = 0
        """Characters left out of the middle."""

    def feed(self, data: bytes, final: bool = False) -> None:
        text = self._held + self._decoder.decode(data, final)
        self._held = ""
        if not final:
            # The rest of an escape sequence is still to come; one without end is no sequence.
            unfinished = _UNFINISHED.search(text, max(0, len(text) - _MOST_UNFINISHED))
            if unfinished:
                text, self._held = text[: unfinished.start()], unfinished[0]
        text = printable(text)
        if self._room:
            self._head.append(text[: self._room])
            text = text[self._room :]
            self._room -= len(self._head[-1])
        self._tail += text
        # Twice the length, so that trimming costs little even when data comes in small pieces.
        if len(self._tail) > 2 * self._last + (1 << 16) or final:
            surplus = max(0, len(self._tail) - self._last)
            self._tail = self._tail[surplus:]
            self.cut += surplus

    def finish(self) -> str:
        """All that was fed; with a line that says how much is missing where something is."""
        self.feed(b"", final=True)
        head = "".join(self._head)
        if not self.cut:
            return head + self._tail
        separator = "" if head.endswith("\n") else "\n"
        return f"{head}{separator}[... {self.cut} characters left out ...]\n{self._tail}"


def shorten(data: bytes, most: int) -> tuple[str, int]:
    """`data` as text of at most `most` characters and a note, and how many characters were left out."""
    transcript = Transcript(most)
    transcript.feed(data)
    return transcript.finish(), transcript.cut
