"""Ctrl-C while greenlets work."""

from __future__ import annotations

import signal

import gevent


def deliver_to_caller() -> None:
    """From now on an interrupt is raised in the greenlet that calls this.

    Python would raise it in whichever runs at that moment. A worker that keeps what comes of its
    work, or a thread of paramiko's, would take it for its own, and the user's wish would be lost.
    """
    gevent.signal_handler(signal.SIGINT, gevent.kill, gevent.getcurrent(), KeyboardInterrupt)
