"""Train a character-level language model with an LSTM, quantize it, and compare perplexity and bytes of the weights.

python numod/examples/quantize_language_model.py
"""

import math

import numod as torch
import numod.nn.functional as F
from numod import Tensor, nn, optim
from numod.ao import quantization
from numod.examples.character_model import zen
from numod.examples.quantize_digits import weight_bytes


class LanguageModel(nn.Module):
    """Characters (N, T) to scores of the next ones (N, T, characters)."""

    def __init__(self, characters: int, width: int = 128) -> None:
        super().__init__()
        self.embedding, self.lstm = nn.Embedding(characters, 16), nn.LSTM(16, width, batch_first=True)
        self.output = nn.Linear(width, characters)

    def forward(self, text: Tensor) -> Tensor:
        return self.output(self.lstm(self.embedding(text))[0])


def loss_of(model: nn.Module, codes: Tensor, starts: Tensor, length: int = 64) -> Tensor:
    places = starts[:, None] + torch.arange(length)
    return F.cross_entropy(model(codes[places]).flatten(0, 1), codes[places + 1].flatten())


def main(steps: int = 150, seed: int = 0) -> dict[str, tuple[float, int]]:
    """(perplexity of the text, bytes) of the float and the quantized model."""
    text = zen()
    alphabet = "".join(sorted(set(text)))
    codes = torch.tensor([alphabet.index(character) for character in text])
    torch.manual_seed(seed)
    model = LanguageModel(len(alphabet))
    optimizer = optim.Adam(model.parameters(), lr=5e-3)
    for _ in range(steps):
        optimizer.zero_grad()
        loss_of(model, codes, torch.randint(len(codes) - 65, (16,))).backward()
        optimizer.step()

    models = {"float": model, "dynamic": quantization.quantize_dynamic(model, {nn.LSTM, nn.Linear})}
    starts = torch.arange(0, len(codes) - 65, 8)
    with torch.no_grad():
        return {name: (math.exp(loss_of(m, codes, starts).item()), weight_bytes(m)) for name, m in models.items()}


if __name__ == "__main__":
    for name, (perplexity, size) in main().items():
        print(f"{name:8} perplexity {perplexity:.4f}  {size:7,} bytes")
