"""Ctrl-C reaches a session that is busy in native code, and leaves no handler behind."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import threading

import pytest

from gemmachat.interrupt import cancel_on_interrupt, on_interrupt

libc = ctypes.CDLL(None)


class NativeWait:
    """Blocks the calling thread in C until `cancel` is called from another one."""

    def __init__(self) -> None:
        self.read_end, self.write_end = os.pipe()
        self.cancels = 0

    def run(self) -> None:
        byte = ctypes.create_string_buffer(1)
        # A signal ends read() early; only a byte from cancel() ends this wait.
        while libc.read(self.read_end, byte, 1) != 1:
            pass

    def cancel(self) -> None:
        self.cancels += 1
        os.write(self.write_end, b"x")

    def close(self) -> None:
        os.close(self.read_end)
        os.close(self.write_end)


def interrupt_soon(count: int = 1) -> threading.Timer:
    def press() -> None:
        for _ in range(count):
            os.kill(os.getpid(), signal.SIGINT)

    timer = threading.Timer(0.1, press)
    timer.start()
    return timer


def test_interrupt_cancels_a_session_that_is_inside_native_code() -> None:
    session = NativeWait()
    timer = interrupt_soon()
    with cancel_on_interrupt(session) as interrupt:
        session.run()  # would never return by itself
        timer.join()
    assert interrupt.pressed
    assert session.cancels == 1
    session.close()


def test_without_interrupt_nothing_is_cancelled() -> None:
    session = NativeWait()
    with cancel_on_interrupt(session) as interrupt:
        pass
    assert not interrupt.pressed
    assert session.cancels == 0
    session.close()


def test_second_interrupt_ends_python_code_that_ignores_the_first() -> None:
    pressed = threading.Event()

    def ignore_the_first() -> None:
        with on_interrupt(pressed.set):
            os.kill(os.getpid(), signal.SIGINT)
            assert pressed.wait(10)
            os.kill(os.getpid(), signal.SIGINT)
            threading.Event().wait(10)

    with pytest.raises(KeyboardInterrupt):
        ignore_the_first()


def test_handler_and_wakeup_descriptor_are_restored_even_after_an_error() -> None:
    handler = signal.getsignal(signal.SIGINT)
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    before = signal.set_wakeup_fd(writer)
    threads = threading.active_count()
    try:
        with pytest.raises(ZeroDivisionError), on_interrupt(lambda: None):
            raise ZeroDivisionError
        assert signal.set_wakeup_fd(writer) == writer
    finally:
        signal.set_wakeup_fd(before)
        os.close(reader)
        os.close(writer)
    assert signal.getsignal(signal.SIGINT) is handler
    assert threading.active_count() == threads


def test_ignored_interrupts_stay_ignored() -> None:
    handler = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with on_interrupt(lambda: None) as interrupt:
            os.kill(os.getpid(), signal.SIGINT)
        assert not interrupt.pressed
    finally:
        signal.signal(signal.SIGINT, handler)


def test_outside_the_main_thread_it_does_nothing() -> None:
    handler = signal.getsignal(signal.SIGINT)
    entered: list[bool] = []

    def work() -> None:
        with on_interrupt(lambda: None) as interrupt:
            entered.append(signal.getsignal(signal.SIGINT) is handler and not interrupt.pressed)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert entered == [True]


LOADING = """
import ctypes
from gemmachat.interrupt import exit_on_interrupt
with exit_on_interrupt():
    print("loading", flush=True)
    while True:
        ctypes.CDLL(None).sleep(1000)
"""


def test_interrupt_while_loading_ends_the_process_with_130() -> None:
    process = subprocess.Popen([sys.executable, "-c", LOADING], stdout=subprocess.PIPE)
    with process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"loading\n"
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 130
