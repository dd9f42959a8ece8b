"""Fit a table of numbers: read CSV, standardize, train with early stopping, predict.

    python numod/examples/regression_from_csv.py [file.csv]

The last column is the target. Without a file, the example writes one first.
"""

import copy
import sys

import numpy as np

import numod as torch
import numod.nn.functional as F
from numod import nn, optim
from numod.utils.data import DataLoader, TensorDataset, random_split


def write_table(path: str, rows: int = 600) -> None:
    """A table of three inputs and a target with a little noise."""
    random = np.random.default_rng(0)
    x = random.uniform(-2, 2, (rows, 3))
    y = np.sin(x[:, 0]) + x[:, 1] * x[:, 2] + random.normal(0, 0.05, rows)
    np.savetxt(path, np.column_stack([x, y]), delimiter=",", header="a,b,c,target", comments="")


def main(path: str | None = None, epochs: int = 80) -> float:
    if path is None:
        path = "table.csv"
        write_table(path)
    table = np.loadtxt(path, delimiter=",", skiprows=1, dtype=np.float32)
    table = (table - table.mean(axis=0)) / table.std(axis=0)
    data = TensorDataset(torch.from_numpy(table[:, :-1].copy()), torch.from_numpy(table[:, -1:].copy()))
    torch.manual_seed(0)
    train, validation = random_split(data, [0.8, 0.2])
    x_validation, y_validation = validation[:]

    model = nn.Sequential(nn.Linear(table.shape[1] - 1, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 1))
    optimizer = optim.Adam(model.parameters(), lr=5e-3)
    best, best_state, patience = float("inf"), model.state_dict(), 0
    for epoch in range(epochs):
        for x, y in DataLoader(train, batch_size=32, shuffle=True):
            optimizer.zero_grad()
            F.mse_loss(model(x), y).backward()
            optimizer.step()
        with torch.no_grad():
            error = F.mse_loss(model(x_validation), y_validation).item()
        if error < best:
            best, best_state, patience = error, copy.deepcopy(model.state_dict()), 0
        else:
            patience += 1
        if epoch % 10 == 9:
            print(f"epoch {epoch + 1:3}  validation error {error:.4f}  best {best:.4f}")
        if patience == 15:
            break
    model.load_state_dict(best_state)
    return best


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else None)
