"""What of a page is run, and how its output is compared."""

from pathlib import Path

import pytest

import pages


def page(tmp_path: Path, text: str) -> pages.Page:
    (tmp_path / "page.md").write_text(text)
    return pages.read(tmp_path / "page.md")


def ran(tmp_path: Path, text: str) -> None:
    (tmp_path / "scripts").mkdir()
    pages.run(page(tmp_path, text), tmp_path / "scripts", {"PATH": "/usr/bin:/bin"}, tmp_path)


def test_blocks_share_a_shell_and_their_output_is_compared(tmp_path: Path) -> None:
    ran(tmp_path, "```sh\nX=one\n```\n\nprose\n\n```sh\necho $X; echo a 12 b\n```\n```output\none\na 99   b\n```\n")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("```sh\necho one\n```\n```output\ntwo\n```\n", "page.md:1: it does not print 'two'"),
        ("```sh\nfalse\ntrue\n```\n", "page.md:1: a command failed"),
        ("<!-- exit: 2 -->\n```sh\nfalse\n```\n", "page.md:2: left with 1, not 2"),
        ("```output\none\n```\n", "page.md:1: output of no command"),
    ],
)
def test_what_a_page_does_not_say_fails_it_by_line(tmp_path: Path, text: str, told: str) -> None:
    with pytest.raises(pages.Failed, match=told):
        ran(tmp_path, text)


def test_a_command_that_is_refused_is_told_by_its_exit_status(tmp_path: Path) -> None:
    ran(tmp_path, "<!-- exit: 3 -->\n```sh\n(exit 3)\n```\n```sh\necho on\n```\n```output\non\n```\n")


def test_a_block_with_a_title_becomes_a_file(tmp_path: Path) -> None:
    ran(tmp_path, '```toml title="in/some.toml"\na = 1\n```\n```sh\ncat in/some.toml\n```\n```output\na = 1\n```\n')


def test_what_runs_on_is_ended(tmp_path: Path) -> None:
    ran(tmp_path, "```sh\nsleep 1000 & echo $! > pid\n```\n")
    assert not Path(f"/proc/{(tmp_path / 'pid').read_text().strip()}").exists()


def test_a_block_that_cannot_run_here_says_why(tmp_path: Path) -> None:
    read = page(tmp_path, "<!-- not run: needs\na GPU -->\n```sh\nfalse\n```\n")
    assert [block.not_run for block in read.not_run] == ["needs a GPU"]


@pytest.mark.parametrize(
    ("shown", "printed", "is_there"),
    [
        ("rsv_33qewxqfekekxvkgxwxmb0fz: placed", "rsv_01m8m8yhqe52wsqzmkq21vg4ja: placed", True),
        ("rsv_33qewxqfekekxvkgxwxmb0fz: placed", "rsv_01m8m8yhqe52wsqzmkq21vg4ja: active", False),
        ("a\n…\nc", "a\nb\nc", True),
        ("a … c", "a b c", True),
        ("a\nb", "b\na", False),
        ("a b", "a b c", False),
        ("at 2026-11-29T18:28:09.384Z, 3,933 rows", "at 2027-01-01T00:00:00Z, 12 rows", True),
        ("GPU-51ee872b-ba9c-4f2a-961e-3e6121fbd6c8", "GPU-0077872b-ba9c-4f2a-961e-3e6121fbd6c8", True),
    ],
)
def test_ids_instants_and_numbers_are_wild(shown: str, printed: str, is_there: bool) -> None:
    assert (pages.first_missing(tuple(shown.splitlines()), printed) is None) is is_there


def test_a_command_outside_of_a_block_that_is_run_is_found(tmp_path: Path) -> None:
    page(tmp_path, "```sh\nbetter-compute a b\n```\n\n    better-compute nodes list\n\nSay `better-compute x`.\n")
    assert pages.unrun_commands(tmp_path / "page.md") == ["better-compute nodes list"]


def test_a_mark_is_of_its_own_block_alone(tmp_path: Path) -> None:
    read = page(tmp_path, "<!-- not run: a GPU -->\n```sh\na\n```\n<!-- exit: 1 -->\n```sh\nb\n```\n```sh\nc\n```\n")
    assert [(block.not_run, block.exit) for block in read.blocks] == [("a GPU", 0), ("", 1), ("", 0)]
