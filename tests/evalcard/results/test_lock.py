"""Nobody writes the cards of a run while another process does."""

import threading
from pathlib import Path

import pytest

from evalcard.errors import UserError
from evalcard.results.lock import CARDS_LOCK_FILE, PUBLISH_LOCK_FILE, cards_lock, publish_lock


def in_thread(folder: Path, said: list[str]) -> threading.Thread:
    def enter() -> None:
        try:
            with cards_lock(folder, seconds=0.2):
                said.append("entered")
        except UserError as error:
            said.append(str(error))

    thread = threading.Thread(target=enter)
    thread.start()
    return thread


def test_it_may_be_entered_again_and_is_free_afterwards(tmp_path: Path):
    said: list[str] = []
    with cards_lock(tmp_path, seconds=0.2):
        with cards_lock(tmp_path, seconds=0.2):
            pass
        in_thread(tmp_path, said).join(30)
        assert len(said) == 1 and f"the cards of {tmp_path} are being written by another process" in said[0]
    in_thread(tmp_path, said).join(30)
    assert said[1:] == ["entered"]


def test_publishing_has_a_lock_of_its_own(tmp_path: Path):
    said: list[str] = []

    def publish() -> None:
        with pytest.raises(UserError, match="being published by another process, which may be waiting") as error:
            publish_lock(tmp_path, seconds=0.1).__enter__()
        said.append(str(error.value))

    with publish_lock(tmp_path, seconds=0.1), cards_lock(tmp_path, seconds=0.1):
        other = threading.Thread(target=publish)
        other.start()
        other.join(30)
    assert len(said) == 1 and str(tmp_path) in said[0] and (tmp_path / PUBLISH_LOCK_FILE).is_file()


def test_where_no_lock_can_be_made_the_first_file_tells(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def no_locks(*_: object, **__: object) -> None:
        raise NotImplementedError("this file system has no locks")

    monkeypatch.setattr("evalcard.results.lock.FileLock.acquire", no_locks)
    with cards_lock(tmp_path):
        (tmp_path / "README.md").write_text("all")
    assert not (tmp_path / CARDS_LOCK_FILE).exists()
