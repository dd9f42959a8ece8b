"""Checked by `test_types.py`, not run: a DCGAN and a policy gradient loop, in the style of PyTorch's examples."""

from collections.abc import Iterable

import numpy as np

import numod as torch
import numod.nn as nn
import numod.optim as optim
from numod.distributions import Categorical, Normal


def weights_init(m: nn.Module) -> None:
    classname = m.__class__.__name__
    if classname.find("Conv") != -1:
        nn.init.normal_(m.weight.data, 0.0, 0.02)
    elif classname.find("BatchNorm") != -1:
        nn.init.normal_(m.weight.data, 1.0, 0.02)
        nn.init.constant_(m.bias.data, 0)


class Generator(nn.Module):
    def __init__(self, nz: int = 100, ngf: int = 64, nc: int = 3) -> None:
        super().__init__()
        self.main = nn.Sequential(
            nn.ConvTranspose2d(nz, ngf * 4, 4, 1, 0, bias=False),
            nn.BatchNorm2d(ngf * 4),
            nn.ReLU(True),
            nn.ConvTranspose2d(ngf * 4, nc, (4, 4), stride=(2, 2), padding=1, bias=False),
            nn.Tanh(),
        )

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        if input.is_cuda and torch.cuda.device_count() > 1:
            return nn.parallel.data_parallel(self.main, input, range(2))
        return self.main(input)


def train_gan(batches: Iterable[torch.Tensor], device: torch.device) -> None:
    netG, netD = (
        Generator().to(device),
        nn.Sequential(nn.Conv2d(3, 1, 4), nn.LeakyReLU(0.2, inplace=True), nn.Sigmoid()),
    )
    netG.apply(weights_init)
    criterion = nn.BCELoss()
    optimizerD = optim.Adam(netD.parameters(), lr=0.0002, betas=(0.5, 0.999))
    optimizerG = optim.Adam(netG.parameters(), lr=0.0002, betas=(0.5, 0.999))
    fixed_noise = torch.randn(64, 100, 1, 1, device=device)
    for real in batches:
        netD.zero_grad()
        label = torch.full((real.size(0),), 1.0, dtype=real.dtype, device=device)
        output = netD(real).view(-1)
        errD_real = criterion(output, label)
        errD_real.backward()
        noise = torch.randn(real.size(0), 100, 1, 1, device=device)
        fake = netG(noise)
        label.fill_(0)
        errD_fake = criterion(netD(fake.detach()).view(-1), label)
        errD_fake.backward()
        errD = errD_real + errD_fake
        optimizerD.step()
        netG.zero_grad()
        label.fill_(1.0)
        errG = criterion(netD(fake).view(-1), label)
        errG.backward()
        optimizerG.step()
        print(f"Loss_D: {errD.item():.4f} Loss_G: {errG.item():.4f}")
    image: np.ndarray = netG(fixed_noise).detach().cpu().mul(0.5).add_(0.5).clamp(0, 1).numpy()
    print(image.shape, netG.main[0].weight.shape, len(netG.main))


class Policy(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.affine1 = nn.Linear(4, 128)
        self.affine2 = nn.Linear(128, 2)
        self.log_std = nn.Parameter(torch.zeros(2))
        self.saved_log_probs: list[torch.Tensor] = []
        self.rewards: list[float] = []

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(self.affine2(torch.relu(self.affine1(x))), dim=1)


def select_action(policy: Policy, state: np.ndarray) -> int:
    probs = policy(torch.from_numpy(state).float().unsqueeze(0))
    m = Categorical(probs)
    action = m.sample()
    policy.saved_log_probs.append(m.log_prob(action))
    spread = Normal(probs, policy.log_std.exp()).rsample()
    return action.item() if bool((spread > 0).any()) else 0


def finish_episode(policy: Policy, optimizer: optim.Optimizer, gamma: float = 0.99) -> None:
    R = 0.0
    returns: list[float] = []
    for r in policy.rewards[::-1]:
        R = r + gamma * R
        returns.insert(0, R)
    scaled = torch.tensor(returns)
    scaled = (scaled - scaled.mean()) / (scaled.std() + np.finfo(np.float32).eps.item())
    losses = [-log_prob * value for log_prob, value in zip(policy.saved_log_probs, scaled)]
    optimizer.zero_grad()
    policy_loss = torch.stack(losses).sum()
    policy_loss.backward()
    optimizer.step()
    with torch.no_grad():
        for p in policy.parameters():
            if p.grad is not None:
                p.sub_(p.grad, alpha=0.1)
                p.grad.zero_()
    del policy.rewards[:]
