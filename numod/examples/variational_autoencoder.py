"""Train a variational autoencoder on digits, and draw new ones.

python numod/examples/variational_autoencoder.py
"""

import numod as torch
import numod.nn.functional as F
from numod import Tensor, nn, optim
from numod.datasets import Digits
from numod.distributions import Normal, kl_divergence


class Autoencoder(nn.Module):
    """Images (N, 64) to a distribution over codes (N, codes), and back. Kingma and Welling, 2014."""

    def __init__(self, codes: int = 8, width: int = 128) -> None:
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(64, width), nn.ReLU(), nn.Linear(width, 2 * codes))
        self.decoder = nn.Sequential(nn.Linear(codes, width), nn.ReLU(), nn.Linear(width, 64))

    def encode(self, images: Tensor) -> Normal:
        mean, scale = self.encoder(images).chunk(2, dim=-1)
        return Normal(mean, F.softplus(scale) + 1e-4)


def loss_of(model: Autoencoder, images: Tensor) -> Tensor:
    """The negative evidence lower bound per image."""
    codes = model.encode(images)
    scores = model.decoder(codes.rsample())
    reconstruction = F.binary_cross_entropy_with_logits(scores, images, reduction="sum")
    prior = Normal(torch.zeros_like(codes.loc), torch.ones_like(codes.scale))
    return (reconstruction + kl_divergence(codes, prior).sum()) / len(images)


def show(image: Tensor) -> None:
    """Print an image of 8 x 8 values from 0 to 1."""
    for row in image.reshape(8, 8).tolist():
        print("".join(" ░▒▓█"[min(int(5 * value), 4)] * 2 for value in row))


def main(epochs: int = 30) -> tuple[float, float]:
    torch.manual_seed(0)
    images = Digits(train=True).data.reshape(-1, 64)
    model = Autoencoder()
    optimizer = optim.Adam(model.parameters(), lr=2e-3)
    first = loss_of(model, images).item()
    for epoch in range(epochs):
        for batch in images[torch.randperm(len(images))].split(64):
            optimizer.zero_grad()
            loss_of(model, batch).backward()
            optimizer.step()
        if epoch % 10 == 9:
            print(f"epoch {epoch + 1:3}  loss {loss_of(model, images).item():.2f}")
    with torch.no_grad():
        for image in model.decoder(torch.randn(2, 8)).sigmoid():
            show(image)
    return first, loss_of(model, images).item()


if __name__ == "__main__":
    main()
