"""The process that compiles a program for one target: kernels' texts, and much that is remembered of them, fit one
machine only, so each has its own process.

It reads a folder with `program`, `job.json` and the samples, and writes a line of JSON and the object file to its
standard output.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from ..device import target
from ..device.target import Machine
from ..graph.ir.program import Value
from ..serialization.program import load_program
from .entry import Data
from .interface import Interface, Port, Weight


def main(folder: str, machine: str, level: str = "") -> None:
    """Compile what the folder says for the machine, given as JSON. `level`: as one of several, by this name."""
    home, machine = Path(folder), Machine(**json.loads(machine))
    target.compile_for(machine)
    from .module import compiled, planned, weights_of

    job = json.loads((home / "job.json").read_text())
    interface = interface_of(job["interface"])
    plan = planned(load_program(home / "program"), job["stream"])
    weights = weights_of(plan, {Value(int(number)): name for number, name in job["names"].items()})
    samples = [
        [(home / f"{kind}{k}").read_bytes() for k in range(len(ports))]
        for kind, ports in (("input", interface.inputs), ("output", interface.outputs))
    ]
    data = Data(
        b"", (), tuple(samples[0]), tuple(samples[1]), tuple(job["scales"]), job["abi"], (home / "header").read_bytes()
    )
    made = compiled(plan, interface, weights, machine, data, job["size"], level)
    sys.stdout.buffer.write(json.dumps({"arena": made.arena}).encode() + b"\n" + made.code)


def interface_of(fields: dict) -> Interface:
    """An interface from its fields as JSON."""
    ports = {
        kind: tuple([Port(**{**each, "shape": tuple(each["shape"])}) for each in fields[kind]])
        for kind in ("inputs", "outputs")
    }
    weights = tuple([Weight(**{**each, "shape": tuple(each["shape"])}) for each in fields["weights"]])
    return Interface(**{**fields, **ports, "weights": weights, "checks": tuple(fields["checks"])})


if __name__ == "__main__":
    main(*sys.argv[1:])
