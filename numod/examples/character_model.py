"""Train a character-level language model with a GRU, and let it write.

    python numod/examples/character_model.py [file.txt]

Without a file it learns the Zen of Python.
"""

import codecs
import contextlib
import io
import math
import sys

import numod as torch
import numod.nn.functional as F
from numod import Tensor, nn, optim


class CharacterModel(nn.Module):
    """Characters (N, T) to scores of the next ones (N, T, characters)."""

    def __init__(self, characters: int, width: int = 64) -> None:
        super().__init__()
        self.embedding = nn.Embedding(characters, width)
        self.recurrent = nn.GRU(width, width, batch_first=True)
        self.output = nn.Linear(width, characters)

    def forward(self, text: Tensor, state: Tensor | None = None) -> tuple[Tensor, Tensor]:
        x, last_state = self.recurrent(self.embedding(text), state)
        return self.output(x), last_state


def zen() -> str:
    """The Zen of Python, which the standard library carries in ROT13."""
    with contextlib.redirect_stdout(io.StringIO()):
        import this
    return codecs.decode(this.s, "rot13")


def write(model: CharacterModel, alphabet: str, start: str, length: int) -> str:
    """Continue `start` by `length` characters, drawn from the model's probabilities."""
    text, state = start, None
    x = torch.tensor([[alphabet.index(character) for character in start]])
    with torch.no_grad():
        for _ in range(length):
            scores, state = model(x, state)
            x = torch.multinomial(F.softmax(scores[:, -1] / 0.7, dim=-1), 1)
            text += alphabet[x.item()]
    return text


def main(path: str | None = None, steps: int = 300, length: int = 64) -> float:
    text = open(path, encoding="utf-8").read() if path else zen()
    alphabet = "".join(sorted(set(text)))
    codes = torch.tensor([alphabet.index(character) for character in text])
    torch.manual_seed(0)
    model = CharacterModel(len(alphabet))
    optimizer = optim.Adam(model.parameters(), lr=5e-3)
    loss = torch.tensor(math.nan)
    for step in range(steps):
        starts = torch.randint(len(codes) - length - 1, (16, 1)) + torch.arange(length)
        optimizer.zero_grad()
        scores, _ = model(codes[starts])
        loss = F.cross_entropy(scores.flatten(0, 1), codes[starts + 1].flatten())
        loss.backward()
        optimizer.step()
        if step % 50 == 49:
            print(f"step {step + 1:4}  loss {loss.item():.3f}  perplexity {math.exp(loss.item()):.1f}")
    print(write(model, alphabet, text[:10], 200))
    return loss.item()


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else None)
