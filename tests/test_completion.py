"""`python -m numod completion`: the words come from the parsers, and bash completes with them."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from numod.__main__ import COMMANDS, _parser, main
from numod.completion import words_of


def test_every_command_and_option_is_offered() -> None:
    offered = {command.path: command for command in words_of(_parser())}
    assert len(COMMANDS) < len(offered[""].words)
    assert {"cache list", "cache unpack", "warmup", "completion"} <= set(offered)
    assert "--trust" in offered["cache unpack"].words and {"bash", "zsh", "fish"} <= set(offered["completion"].words)
    assert offered["export"].choices["--weights"] == ["embedded", "file"]
    assert all(text and "%(" not in text for command in offered.values() for text in command.words.values())


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_reads_its_script(shell: str, capsys: pytest.CaptureFixture) -> None:
    assert main(["completion", shell]) == 0
    script = capsys.readouterr().out
    assert "--eval" in script.replace("-l eval", "--eval") and "doctor" in script
    if shutil.which(shell):
        subprocess.run([shell, "-n"], input=script, text=True, check=True)


@pytest.mark.skipif(not shutil.which("bash"), reason="needs bash")
@pytest.mark.parametrize(
    "line, expected",
    [
        ("numod doc", {"docs", "doctor"}),
        ("python3 -m numod cache u", {"unpack"}),
        ("python -m numod export --weights ", {"embedded", "file"}),
        ("python -m numod warmup server:model --b", {"--batch"}),
        ("python script.py ", set()),
    ],
)
def test_bash_completes(line: str, expected: set[str], capsys: pytest.CaptureFixture) -> None:
    main(["completion", "bash"])
    words = line.split(" ")
    function = "_numod" if words[0] == "numod" else "_numod_python"
    program = (
        f"{capsys.readouterr().out}\nCOMP_WORDS=({' '.join(word or repr('') for word in words)})\n"
        f"COMP_CWORD={len(words) - 1}\n{function}\necho ${{COMPREPLY[@]}}"
    )
    ended = subprocess.run(["bash", "-c", program], capture_output=True, text=True, check=True)
    assert set(ended.stdout.split()) == expected and not ended.stderr
