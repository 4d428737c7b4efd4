"""The port of METRICS_BIND, and the folder in which the workers count."""

from __future__ import annotations

import os
import socket
import stat
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from config.metrics import port, slots
from tests.server import free_port


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv(port.FOLDER_VARIABLE, "")
    yield tmp_path
    port.close_port()


def abandoned(folder: Path, name: str) -> Path:
    """A folder of an hour ago."""
    path = folder / name
    path.mkdir()
    (path / "counter_0.db").write_text("")
    os.utime(path, (time.time() - 3600,) * 2)
    return path


@pytest.mark.parametrize("host", ["127.0.0.1", "[::1]"])
def test_the_port_is_open_and_the_folder_is_for_this_user_alone(folder: Path, host: str) -> None:
    number = free_port()
    try:
        port.open_port(f"{host}:{number}")
    except SystemExit:
        pytest.skip("needs IPv6")
    assert port.opened
    socket.create_connection((host.strip("[]"), number), timeout=60).close()
    assert stat.S_IMODE(port.opened.folder.stat().st_mode) == 0o700
    assert os.environ[port.FOLDER_VARIABLE] == str(port.opened.folder)
    assert port.opened.folder.parent == folder
    port.close_port()
    assert list(folder.iterdir()) == []


def test_an_address_or_a_port_that_can_not_be_had_and_a_missing_folder_are_refused(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sentence = (
        r"^METRICS_BIND: the service can't listen at 192\.0\.2\.1:9100 \([^(]+\)\. Use an address of this machine"
    )
    with pytest.raises(SystemExit, match=sentence):
        port.open_port("192.0.2.1:9100")
    with socket.create_server(("127.0.0.1", 0)) as other:
        bind = f"127.0.0.1:{other.getsockname()[1]}"
        with pytest.raises(SystemExit, match=r"\(Address already in use\)\. Use .+ a port that is free\.$"):
            port.open_port(bind)
    monkeypatch.setattr(tempfile, "tempdir", str(folder / "gone"))
    with pytest.raises(SystemExit, match=r"^METRICS_BIND needs a folder .+\(No such file or directory\)\. Set TMPDIR"):
        port.open_port(f"127.0.0.1:{free_port()}")


def test_the_folder_of_a_killed_master_is_removed_and_those_in_use_new_or_of_others_stay(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    new = folder / "sign-in-metrics-new"
    new.mkdir()
    target = folder / "elsewhere"
    target.mkdir()
    link = folder / "sign-in-metrics-link"
    link.symlink_to(target)
    os.utime(link, (0, 0), follow_symlinks=False)
    used, old = (abandoned(folder, f"sign-in-metrics-{name}") for name in ("used", "old"))
    lock = port._locked(used)  # as another process has it
    port.remove_abandoned()
    os.close(lock)
    assert [path.exists() for path in (used, new, target, old)] == [True, True, True, False]
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    port.remove_abandoned()
    assert used.exists()
    monkeypatch.undo()


# Slots ----------------------------------------------------------------------------------------------------------------


@pytest.fixture
def worker(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Path], ExitStack]]:
    """`worker(folder)` claims a slot as another worker does, and has it until its `close`, which the kernel calls."""
    with ExitStack() as ended:

        def claim(folder: Path) -> ExitStack:
            monkeypatch.setattr(slots, "_held", held := [])
            slot = slots.claim(folder)
            (lock,) = held
            assert Path(lock.name).stem == str(slot)
            each = ended.enter_context(ExitStack())
            each.enter_context(lock)
            return each

        yield claim


def test_a_worker_takes_over_the_counts_of_one_that_has_ended_but_not_its_present_state(
    folder: Path, worker: Callable[[Path], ExitStack]
) -> None:
    first = worker(folder)
    worker(folder)
    assert {path.name for path in folder.glob("*.lock")} == {"0.lock", "1.lock"}
    for kind, size in slots.BYTES.items():
        found = (folder / f"{kind}_0.db").stat()
        assert found.st_size == size
        assert found.st_blocks * 512 >= size, "the space is taken at the start"
    (folder / "counter_0.db").write_text("counts")
    gauge = folder / "gauge_livesum_0.db"
    assert slots.forget_ended(folder) == 2
    assert gauge.exists()
    first.close()
    assert slots.forget_ended(folder) == 1
    assert not gauge.exists()
    worker(folder)
    assert slots.forget_ended(folder) == 2
    assert gauge.stat().st_size == slots.BYTES["gauge_livesum"]
    assert (folder / "counter_0.db").read_bytes().startswith(b"counts")
