"""Train a small decoder-only transformer to sort numbers.

    python numod/examples/sorting_transformer.py

A sequence is six digits, followed by the same digits in order; the model learns to write the second half.
"""

import numod as torch
import numod.nn.functional as F
from numod import Tensor, nn, optim

DIGITS, LENGTH = 10, 6


class Block(nn.Module):
    """Self-attention and a feed-forward network, each with a norm before and a residual connection. (N, T, width)."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.project = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.feed_forward = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (
            part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in self.qkv(self.norm1(x)).chunk(3, dim=-1)
        )
        attended = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.project(attended.transpose(1, 2).flatten(2))
        return x + self.feed_forward(self.norm2(x))


class Sorter(nn.Module):
    """Digits (N, T) to scores of the next digit (N, T, 10)."""

    def __init__(self, width: int = 48, heads: int = 4, layers: int = 2) -> None:
        super().__init__()
        self.digit = nn.Embedding(DIGITS, width)
        self.position = nn.Parameter(0.1 * torch.randn(2 * LENGTH - 1, width))
        self.blocks = nn.Sequential(*[Block(width, heads) for _ in range(layers)])
        self.output = nn.Linear(width, DIGITS)

    def forward(self, x: Tensor) -> Tensor:
        return self.output(self.blocks(self.digit(x) + self.position[: x.shape[1]]))


def main(steps: int = 500) -> float:
    torch.manual_seed(0)
    model = Sorter()
    optimizer = optim.AdamW(model.parameters(), lr=2e-3)

    @torch.compile
    def step(sequences: Tensor) -> float:
        optimizer.zero_grad()
        scores = model(sequences[:, :-1])[:, LENGTH - 1 :]
        loss = F.cross_entropy(scores.flatten(0, 1), sequences[:, LENGTH:].flatten())
        loss.backward()
        optimizer.step()
        return loss.item()

    for number in range(steps):
        digits = torch.randint(DIGITS, (64, LENGTH))
        loss = step(torch.cat([digits, digits.sort(dim=1).values], dim=1))
        if number % 100 == 99:
            print(f"step {number + 1:4}  loss {loss:.4f}")

    text = torch.randint(DIGITS, (100, LENGTH))
    expected = text.sort(dim=1).values
    with torch.no_grad():
        for _ in range(LENGTH):
            text = torch.cat([text, model(text)[:, -1:].argmax(dim=-1)], dim=1)
    right = (text[:, LENGTH:] == expected).float().mean().item()
    print(f"{text[0, :LENGTH].tolist()} -> {text[0, LENGTH:].tolist()}; {right:.1%} of the digits are right")
    return right


if __name__ == "__main__":
    main()
