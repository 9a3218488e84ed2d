"""Which directories the services' account can pass through."""

import tempfile
from pathlib import Path

import pytest

from bettercompute.embedded import accounts
from bettercompute.embedded.accounts import Account
from bettercompute.embedded.failures import CannotStart

STRANGER = Account(uid=64_000, gid=64_000)


def test_this_process_reaches_everything_as_itself(tmp_path: Path) -> None:
    assert accounts.can_reach(tmp_path, account=None)


def test_a_stranger_cannot_pass_a_private_directory_above(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    (tmp_path / "inside").mkdir(mode=0o755)

    assert not accounts.can_reach(tmp_path / "inside", account=STRANGER)


@pytest.mark.parametrize(("mode", "passes"), [(0o711, True), (0o755, True), (0o766, False)])
def test_passing_needs_the_search_bit_and_no_other(mode: int, passes: bool) -> None:
    with tempfile.TemporaryDirectory() as name:  # tmp_path lies in a private directory
        Path(name).chmod(mode)

        assert accounts.can_reach(Path(name), account=STRANGER) is passes


def test_the_owner_goes_by_the_owners_bits(tmp_path: Path) -> None:
    # Everybody may pass but the owner: that is what the bits say, and what the kernel does.
    tmp_path.chmod(0o611)
    info = tmp_path.stat()

    assert not accounts.can_reach(tmp_path, account=Account(uid=info.st_uid, gid=info.st_gid))


def test_own_makes_a_private_directory(tmp_path: Path) -> None:
    accounts.own(tmp_path / "run", account=None)

    assert (tmp_path / "run").stat().st_mode & 0o777 == 0o700


def test_own_takes_back_the_permissions_of_a_directory_that_is_ours(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir(mode=0o777)
    accounts.own(tmp_path / "run", account=None)

    assert (tmp_path / "run").stat().st_mode & 0o777 == 0o700


def test_own_follows_no_symbolic_link_that_was_there_first(tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.mkdir()
    target.chmod(0o755)
    (tmp_path / "run").symlink_to(target)

    with pytest.raises(CannotStart, match="not a directory of ours"):
        accounts.own(tmp_path / "run", account=None)
    assert target.stat().st_mode & 0o777 == 0o755
