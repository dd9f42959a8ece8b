"""Train a small network and write it as C: header, object, example program, and a Python loader without numod.

python numod/examples/export_to_c.py [folder]
"""

import subprocess
import sys
from pathlib import Path

import numod as torch
import numod.nn.functional as F
from numod import nn, optim


def train() -> tuple[nn.Module, torch.Tensor]:
    """A network that has learned exclusive or, and its inputs (4, 2)."""
    torch.manual_seed(0)
    x = torch.tensor([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])
    y = torch.tensor([[0.0], [1.0], [1.0], [0.0]])
    model = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 1), nn.Sigmoid())
    optimizer = optim.Adam(model.parameters(), lr=0.05)
    for _ in range(200):
        optimizer.zero_grad()
        F.binary_cross_entropy(model(x), y).backward()
        optimizer.step()
    return model.eval(), x


def main(folder: str = "exclusive_or") -> list[float]:
    model, x = train()
    program = torch.export.export(model, (x,))
    artifact = torch.export.aot_compile(program, folder, name="xor", targets=("native",))
    for path in sorted(Path(folder).iterdir()):
        print(f"{path.stat().st_size:8,} bytes  {path.name}")
    for note in artifact.notes:
        print(note)
    # the loader needs neither numod nor NumPy: another Python runs it here with its standard library alone
    code = "import sys, xor; print([row[0] for row in xor.load().run([[0., 0.], [0., 1.], [1., 0.], [1., 1.]])])"
    run = subprocess.run([sys.executable, "-I", "-S", "-c", f"import sys; sys.path.insert(0, {str(folder)!r}); {code}"],
                         capture_output=True, text=True, check=True)  # fmt: skip
    print(run.stdout.strip())
    return [float(value) for value in run.stdout.strip(" []\n").split(",")]


if __name__ == "__main__":
    main(*sys.argv[1:2])
