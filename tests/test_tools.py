"""The commands doctor, cache and kernels, and errors of the command line, run as a user runs them."""

from __future__ import annotations

import functools
import io
import json
import os
import re
import sys
import tarfile
import tempfile
from pathlib import Path

import pytest

from numod import config, demo, tools
from numod.__main__ import main
from numod.device import threads
from numod.kernel import cache, entry, packs, store, trust
from numod.version import release

SCRIPT = "import numod, sys\nprint('told', sys.argv[1:])\nnumod.arange(5.0).sinh()\n"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty cache, and a script in the current folder."""
    monkeypatch.setenv("NUMOD_CACHE_DIR", str(tmp_path / "kernels"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "script.py").write_text(SCRIPT)
    (tmp_path / "kernels").mkdir(mode=0o700)
    return tmp_path


def test_doctor(folder, capsys):
    code = main(["doctor"])
    text = capsys.readouterr().out
    for title in ("versions", "processor", "threads", "kernel cache", "CUDA"):
        assert f"{title}\n" in text
    assert (
        "numba 0." in text
        and "vectors of" in text
        and "kernels, " in text
        and "tried now: " in text
        and ("nothing to mend" in text) == (code == 0)
    )


def test_doctor_says_what_to_mend(folder, monkeypatch, capsys):
    monkeypatch.setattr(config, "cache_dir", lambda: None)
    assert main(["doctor"]) == 1
    assert "1. there is no cache folder, so that every process compiles: set NUMOD_CACHE_DIR" in capsys.readouterr().out


def test_no_cache_by_choice_is_nothing_to_mend(monkeypatch, capsys):
    monkeypatch.setenv("NUMOD_CACHE_DIR", "")
    assert main(["cache"]) == 0
    assert "off (NUMOD_CACHE_DIR is empty)" in capsys.readouterr().out


def test_doctor_and_cache_and_kernels_as_json(folder, capsys):
    code = main(["doctor", "--json"])
    report = json.loads(capsys.readouterr().out)
    assert report["processor"]["cores"] >= report["processor"]["cores_of_process"] == len(os.sched_getaffinity(0))
    assert report["versions"]["numod"] == release and bool(report["problems"]) == bool(code)
    fill(folder / "kernels", "exp")
    assert main(["cache", "list", "--json"]) == 0
    stored = {kernel["name"]: kernel["bytes"] for kernel in json.loads(capsys.readouterr().out)["kernels"]}
    assert stored[f"exp_{'0' * 16}"] > 0  # beside those that `doctor` has compiled, if it was the first to compile
    assert main(["kernels", "--json", "script.py"]) == 0
    printed = capsys.readouterr()
    assert any(kernel["name"].startswith("sinh_") for kernel in json.loads(printed.out)) and "told" in printed.err


def test_doctor_says_when_python_writes_no_bytecode(folder, monkeypatch, capsys):
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    main(["doctor"])
    assert "PYTHONDONTWRITEBYTECODE" in capsys.readouterr().out


def test_doctor_knows_the_range_of_numba(folder, monkeypatch, capsys):
    monkeypatch.setattr("importlib.metadata.requires", lambda name: ["numba<0.9,>=0.8", "torch; extra == 'bench'"])
    assert main(["doctor"]) == 1
    text = capsys.readouterr().out
    assert "(numod needs >=0.8,<0.9)" in text and "pip install 'numba>=0.8,<0.9'" in text


def test_colours_are_for_terminals(monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    for name, value in (("NO_COLOR", ""), ("TERM", "xterm")):
        monkeypatch.setenv(name, value)
    assert config.colours(Terminal()) and not config.colours(io.StringIO())
    monkeypatch.setattr(sys, "stdout", Terminal())
    assert "\033[1mversions\033[0m" in tools._as_text({"versions": []}, [])
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\033" not in tools._as_text({"versions": []}, ["a problem"])


def test_kernels_lists_what_a_script_used(folder, capsys):
    assert main(["kernels", "script.py", "--own", "x"]) == 0
    text = capsys.readouterr().out
    assert "told ['--own', 'x']" in text and "sinh_" in text and "compiled in" in text


def test_a_missing_script(folder, capsys):
    assert main(["kernels", "nowhere.py"]) == 2 and "there is no file nowhere.py" in capsys.readouterr().err


def fill(path, *names, one_key=False):
    """Entries in a cache folder, as if they had been compiled there; returns their files."""
    with trust.Folder(str(path), make=True) as target:
        for k, name in enumerate(names):
            key = f"{0 if one_key else k}" * 64
            stored = entry.Entry(
                "code", key, f"{name}_{key[:16]}", "float32[]", "1", ("f", "g"), ((bytes(100 + 100 * k), ("f",)),)
            )
            target.write(stored.file, entry.dump(stored, cache.secret(target)))
    return sorted(entry.name for entry in path.glob("*.kernel"))


def test_the_cache_is_listed_packed_cleared_and_unpacked(folder, capsys):
    kernels = folder / "kernels"
    names = fill(kernels, "exp", "add")
    (kernels / "other.txt").write_text("not a kernel")
    (kernels / "folder.kernel").mkdir()
    assert main(["cache", "list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[-1] for line in lines[:2]] == [f"add_{'1' * 16}", f"exp_{'0' * 16}"] and lines[2].startswith(
        "2 kernels, 0.9 kB"
    )
    assert main(["cache", "pack", "all.tar.gz"]) == 0 and main(["cache", "clear"]) == 0
    assert sorted(path.name for path in kernels.iterdir()) == ["folder.kernel", "other.txt", "seal.key"]
    assert main(["cache", "unpack", "all.tar.gz"]) == 0
    assert sorted(path.name for path in kernels.glob("*_*.kernel")) == names
    assert (
        capsys.readouterr().out
        == f"2 kernels written to all.tar.gz\n2 kernels removed from {kernels}\n2 kernels read from all.tar.gz\n"
    )


def test_a_module_runs_as_python_runs_it(folder, capsys, monkeypatch):
    package = folder / "trainer_of_tools"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "__main__.py").write_text("from . import steps\nprint(__name__, __package__, steps.run())\n")
    (package / "steps.py").write_text(
        "import sys\nimport numod\n\ndef run():\n    numod.arange(4.0).cosh()\n    return sys.argv[1:]\n"
    )
    monkeypatch.setattr(sys, "argv", [*sys.argv])
    assert main(["kernels", "-m", "trainer_of_tools", "--rows", "2"]) == 0
    printed = capsys.readouterr().out
    assert "__main__ trainer_of_tools ['--rows', '2']" in printed and "cosh_" in printed
    assert main(["profile", "--compile", "-m", "trainer_of_tools"]) == 0
    assert (folder / "trainer_of_tools_profile.html").exists()
    (package / "wrong.py").write_text("1 / 0\n")
    assert main(["kernels", "-m", "trainer_of_tools.wrong"]) == 1
    lines = capsys.readouterr().err.splitlines()
    assert lines[1].startswith('  File "') and lines[1].endswith('wrong.py", line 1, in <module>') and len(lines) == 5
    assert main(["kernels", "-m", "trainer_of_tools.missing"]) == 1
    assert capsys.readouterr().err == "ImportError: No module named trainer_of_tools.missing\n"


def test_the_package_of_a_module_runs_as_part_of_the_script(folder, capsys, monkeypatch):
    package = folder / "first_of_tools"
    package.mkdir()
    (package / "__init__.py").write_text("import sys\nimport numod\nnumod.arange(4.0).sinh()\nprint(sys.argv[1:])\n")
    (package / "part.py").write_text("")
    monkeypatch.setattr(sys, "argv", [*sys.argv])
    assert main(["profile", "-m", "first_of_tools.part", "--fast"]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("['--fast']") and "sinh" in printed


def test_kernels_of_one_key_and_several_names_are_packed(folder, capsys):
    names = fill(folder / "kernels", "linear_tiles", "matmul_tiles", one_key=True)
    assert main(["cache", "pack", "all.tar.gz"]) == 0 and main(["cache", "clear"]) == 0
    assert main(["cache", "unpack", "all.tar.gz"]) == 0 and "2 kernels read" in capsys.readouterr().out
    assert sorted(path.name for path in (folder / "kernels").glob("*_*.kernel")) == names


def test_archives_of_other_folders_unpack_with_trust(folder, monkeypatch, capsys):
    names = fill(folder / "kernels", "exp", "add")
    assert main(["cache", "pack", "all.tar.gz"]) == 0
    monkeypatch.setenv("NUMOD_CACHE_DIR", str(folder / "other"))
    capsys.readouterr()
    assert main(["cache", "unpack", "all.tar.gz"]) == 1
    printed = capsys.readouterr()
    assert (
        printed.out == "0 kernels read from all.tar.gz\n"
        and "2 kernels left out" in printed.err
        and "--trust" in printed.err
    )
    assert not list((folder / "other").glob("*.kernel"))
    assert main(["cache", "unpack", "--trust", "all.tar.gz"]) == 0 and capsys.readouterr().err == ""
    assert sorted(path.name for path in (folder / "other").glob("*.kernel")) == names


@pytest.mark.parametrize("name", ["../outside.kernel", "/tmp/absolute.kernel", "script.py"])
def test_an_archive_that_would_write_elsewhere_is_refused(folder, name, capsys):
    with tarfile.open("evil.tar.gz", "w:gz") as archive:
        archive.add("script.py", name)
    assert main(["cache", "unpack", "--trust", "evil.tar.gz"]) == 2 and not list((folder / "kernels").iterdir())
    printed = capsys.readouterr().err
    assert f"{name.lstrip('/')!r} is not a kernel's file" in printed and printed.count("\n") == 1


def test_files_that_are_not_archives_are_refused(folder, capsys):
    for content in (b"", b"no archive", b"\x1f\x8b\x08\x00broken"):
        (folder / "wrong.tar.gz").write_bytes(content)
        assert main(["cache", "unpack", "wrong.tar.gz"]) == 2
    assert main(["cache", "unpack", "missing.tar.gz"]) == 2
    assert not list((folder / "kernels").iterdir())


def test_a_pack_that_would_not_be_used_is_refused_before_it_is_compiled(folder, monkeypatch, capsys):
    shared = folder / "shared"
    shared.mkdir()
    shared.chmod(0o1777)
    assert main(["cache", "build", "-o", str(shared / "kernels.pack")]) == 2
    assert "would not be used, since other users can write to it" in capsys.readouterr().err

    def none() -> str:
        raise FileNotFoundError

    monkeypatch.setattr(tempfile, "gettempdir", none)
    assert main(["cache", "build", "-o", str(folder / "kernels.pack")]) == 2
    assert "set TMPDIR" in capsys.readouterr().err
    demo._check_saving(None, None, None, "cpu")
    assert "not saved: no folder for temporary files" in capsys.readouterr().out


def test_packs_and_the_limit_are_shown(folder, monkeypatch, capsys):
    fill(folder / "kernels", "exp")
    packs.write(str(folder / "some.pack"), {"x86-64-v4": []})
    (folder / "bad.pack").write_bytes(b"no pack")
    monkeypatch.setenv("NUMOD_CACHE_SIZE", "3M")
    monkeypatch.setenv("NUMOD_KERNEL_PATH", str(folder / "some.pack"))
    assert main(["cache"]) == 0
    text = capsys.readouterr().out
    assert ": 1 kernels, " in text and " of at most 3.1 MB (NUMOD_CACHE_SIZE)" in text
    assert "1 of them are of other versions" in text and "some.pack: 0 kernels for x86-64-v4" in text
    monkeypatch.setenv("NUMOD_KERNEL_PATH", str(folder))
    assert main(["cache"]) == 1 and "bad.pack is not used: it is not a pack" in capsys.readouterr().err
    monkeypatch.setattr(packs, "versions", lambda: "another")
    main(["cache"])
    assert "some.pack: not used: it was made by numod" in capsys.readouterr().out


def test_mistakes_in_settings_of_the_cache_and_of_packs_are_shown(folder, monkeypatch, capsys):
    (folder / "empty").mkdir()
    monkeypatch.setenv("NUMOD_CACHE_SIZE", "1x")
    monkeypatch.setenv("NUMOD_KERNEL_PATH", os.pathsep.join(["absent.pack", str(folder / "empty")]))
    assert main(["cache"]) == 1
    lines = capsys.readouterr().err.splitlines()
    assert [line.partition(": ")[2] for line in lines] == [
        "NUMOD_CACHE_SIZE is '1x', but a size is a number with K, M, G or T, such as 500M; the default is used: mend or "
        "unset it",
        "the pack absent.pack is not used: No such file or directory; build it again, or mend that",
        f"the folder {folder / 'empty'} of NUMOD_KERNEL_PATH has no file that ends in .pack",
    ]
    monkeypatch.delenv("NUMOD_CACHE_SIZE")
    monkeypatch.setenv("NUMOD_KERNEL_PATH", f"{folder / 'empty'}{os.sep}")
    monkeypatch.setattr(packs.os, "listdir", functools.partial(_refuse, os.listdir, "empty"))
    assert main(["cache"]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert f"the pack {folder / 'empty'}{os.sep} is not used: " in line


def _refuse(list_files, name, path):
    if Path(path).name == name:
        raise PermissionError(13, "Permission denied")
    return list_files(path)


def test_doctor_says_why_the_cache_is_not_used(folder, capsys):
    (folder / "kernels").chmod(0o775)
    assert main(["doctor"]) == 1
    assert (
        f"the kernel cache {folder / 'kernels'} is not used, so that every process compiles: other users can write to "
        "it (mode 0775" in capsys.readouterr().out
    )


def test_a_process_without_a_home_keeps_nothing(folder, monkeypatch, capsys):
    monkeypatch.delenv("NUMOD_CACHE_DIR")
    for name in ("HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(os.path, "expanduser", lambda path: path)  # nor does passwd know one
    assert (
        main(["cache", "list"]) == 2
        and "HOME is not set, and its user has no entry in passwd" in capsys.readouterr().err
    )
    assert main(["doctor"]) == 1 and "HOME is not set" in capsys.readouterr().out


def test_a_cache_that_is_off(folder, monkeypatch, capsys):
    monkeypatch.setenv("NUMOD_CACHE_DIR", "")
    assert main(["cache", "list"]) == 2 and "NUMOD_CACHE_DIR is empty" in capsys.readouterr().err
    assert store.entries() == []


BAD = {
    ("profile", "nowhere.py"): "there is no file nowhere.py",
    ("profile", "-m", "nomodule"): "there is no module nomodule in this folder",
    ("profile", "-m", "nopackage.part"): "there is no module nopackage.part in this folder",
    ("kernels", "-m", "nomodule"): "there is no module nomodule in this folder",
    ("profile", "--sort", "bogus", "good.py"): "cannot sort by 'bogus'; choose from self_cpu_time_total",
    ("profile", "--output", "nowhere/x", "good.py"): "/nowhere; give --output",
    ("warmup", "nomodule:net", "1"): "No module named 'nomodule'",
    ("warmup", "numod.nn:Bogus", "1"): "has no attribute 'Bogus'",
    ("warmup", "numod.nn:Identity"): "the shape of its input",
    ("warmup", "numod.nn:Identity", "a"): "expected sizes such as 1 3 32 32, got 'a'",
    ("warmup", "numod.nn:Identity", "--bogus"): "unrecognized arguments: --bogus",
    ("warmup", "numod.nn:Identity", "--input", "1x2"): "expected a shape such as 1,3,32,32",
    ("warmup", "numod.nn:Identity", "1", "--dtype", "float31"): "there is no dtype 'float31'",
    ("warmup", "numod.nn:Identity", "1", "--dtype", "int8", "int8"): "expected one dtype for all inputs, or 1, got 2",
    ("summary", "numod.nn:functional", "1"): "is not a model, but module",
    ("summary", "numod.nn"): "expected FILE.py, or MODULE:NAME",
    ("cache", "pack", "nowhere/a.tar.gz"): "/nowhere\n",
    ("cache", "unpack", "nowhere.tar.gz"): "nowhere.tar.gz",
    ("cache", "build", "--target", "bogus"): "bogus cannot be compiled here",
    ("cache", "build", "--target", "x86-64-v3,bogus"): "cannot be compiled here",
}


@pytest.mark.parametrize("arguments", BAD, ids=" ".join)
def test_bad_input_is_said_and_exits_with_2(folder, tmp_path, monkeypatch, capsys, arguments):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "good.py").write_text("pass")
    assert main(arguments) == 2
    printed = capsys.readouterr()
    assert (
        BAD[arguments] in printed.err
        and "Traceback" not in printed.err
        and printed.err.count("\n") == 1
        and not printed.out
    )


@pytest.mark.parametrize("command", ["profile", "kernels", "warmup"])
def test_a_script_that_fails_shows_its_own_traceback(folder, tmp_path, monkeypatch, capsys, command):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bad.py").write_text("import numod\nnumod.ones(2)\n1 / 0\n")
    assert main([command, "bad.py"]) == 1
    printed = capsys.readouterr()
    lines = printed.err.splitlines()
    assert (
        lines[:2] == ["Traceback (most recent call last):", '  File "bad.py", line 3, in <module>']
        and lines[-1] == "ZeroDivisionError: division by zero"
    )
    assert (tmp_path / "bad_profile.html").exists() == (command == "profile") == ("Self CPU time total" in printed.out)


def test_doctor_says_what_launches_lose_by_waiting_for_threads(folder, monkeypatch, capsys):
    crew = threads.Crew()
    monkeypatch.setattr(threads, "_crew", crew)
    monkeypatch.setattr(threads, "_threads", 2)
    # as where others hold the cores
    monkeypatch.setattr(crew, "note", lambda count, lost: threads.Crew.note(crew, count, 1_000_000_000))
    main(["doctor"])
    text = capsys.readouterr().out
    assert re.search(
        r"tried now: 1 parallel launches, of which 1 lost 1000.0 ms by waiting: .*; launches use 1 of 2 threads now\n",
        text,
    )


def test_doctor_of_a_quiet_machine(folder, monkeypatch, capsys):
    crew = threads.Crew()
    monkeypatch.setattr(threads, "_crew", crew)
    monkeypatch.setattr(threads, "_threads", 2)
    monkeypatch.setattr(crew, "note", lambda count, lost: threads.Crew.note(crew, count, -1))
    main(["doctor"])
    assert re.search(
        r"tried now: \d+ parallel launches, no time lost by waiting; launches use 2 of 2 threads now\n",
        capsys.readouterr().out,
    )


def test_doctor_where_kernels_do_not_run(folder, monkeypatch, capsys):
    monkeypatch.setattr(tools, "_tried_launches", lambda: (_ for _ in ()).throw(MemoryError("no room")))
    assert main(["doctor"]) == 1 and "kernels do not run here: no room" in capsys.readouterr().out
