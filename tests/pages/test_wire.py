"""Frames between a renderer's process and its parent: whole or not at all, and small ones in one read."""

from __future__ import annotations

import io
import os
import tempfile
import threading

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vsplade.pages.protocol import read_frame, write_frame

BUFFER = 1 << 14


def written(*payload: bytes) -> bytes:
    with tempfile.TemporaryFile() as file:
        write_frame(file.fileno(), {"kind": "page", "text": "é"}, *payload)
        file.seek(0)
        return file.read()


@given(st.binary(max_size=50), st.binary(max_size=50), st.data())
def test_a_frame_that_is_cut_off_is_none(first: bytes, second: bytes, data: st.DataObject) -> None:
    frame = written(first, second)
    cut = data.draw(st.integers(0, len(frame) - 1))
    stream = io.BufferedReader(io.BytesIO(frame + frame[:cut]), BUFFER)  # type: ignore[arg-type]
    answer = read_frame(stream)
    assert answer is not None
    assert answer[0] == {"kind": "page", "text": "é"}
    assert answer[1].tobytes() == first + second
    assert read_frame(stream) is None


@pytest.mark.parametrize("length", [0, 1, BUFFER, 1 << 16, (1 << 16) + 1, 3_000_000])
def test_payloads_of_any_size_come_through_a_pipe(length: int) -> None:
    """The last is larger than a pipe holds: it comes in many pieces."""
    payload = np.random.default_rng(0).integers(0, 256, length, np.uint8)
    reading, writing = os.pipe()

    def send() -> None:
        for _ in range(2):
            write_frame(writing, {"kind": "page"}, payload.data, b"thumbnail")
        os.close(writing)

    sender = threading.Thread(target=send)
    sender.start()
    with os.fdopen(reading, "rb", BUFFER) as stream:
        for _ in range(2):
            answer = read_frame(stream)
            assert answer is not None
            assert answer[1].tobytes() == payload.tobytes() + b"thumbnail"
        assert read_frame(stream) is None
    sender.join()


class Counting(io.RawIOBase):
    """A pipe that says how often it was read."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self.reads = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        self.reads += 1
        return os.readv(self.descriptor, [buffer])


@pytest.mark.skipif(not hasattr(os, "readv"), reason="needs readv")
def test_a_small_frame_is_one_read() -> None:
    reading, writing = os.pipe()
    counting = Counting(reading)
    stream = io.BufferedReader(counting, BUFFER)
    for count in range(1, 4):
        write_frame(writing, {"kind": "page"}, b"", b"thumbnail")
        assert read_frame(stream) is not None
        assert counting.reads == count
    os.close(reading)
    os.close(writing)
