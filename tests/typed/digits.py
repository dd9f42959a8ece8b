"""Checked by `test_types.py`, not run: a convolutional classifier, in the style of PyTorch's MNIST example."""

import argparse

import numod as torch
import numod.nn as nn
import numod.nn.functional as F
import numod.optim as optim
from numod.optim.lr_scheduler import StepLR
from numod.utils.data import DataLoader, Dataset, TensorDataset, random_split


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, 32, 3, 1)
        self.conv2 = nn.Conv2d(32, 64, 3, padding="same")
        self.dropout1 = nn.Dropout(0.25)
        self.fc1 = nn.Linear(9216, 128)
        self.fc2 = nn.Linear(128, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = F.relu(self.conv1(x))
        x = F.relu(self.conv2(x), inplace=True)
        x = F.max_pool2d(x, 2)
        x = F.max_pool2d(x, kernel_size=(2, 2), stride=2)
        x = F.avg_pool2d(x, 2) + F.adaptive_avg_pool2d(x, (1, 1)) + F.adaptive_max_pool2d(x, 1)
        x = F.interpolate(x, scale_factor=2, mode="bilinear", align_corners=False)
        x = F.interpolate(x, size=(8, 8))
        x = F.pad(x, (1, 1, 1, 1))
        x = self.dropout1(x)
        x = torch.flatten(x, 1)
        x = x.view(x.size(0), -1)
        x = x.view(x.shape[0], *x.shape[1:])
        x = F.dropout(self.fc1(x), p=0.5, training=self.training)
        return F.log_softmax(self.fc2(x), dim=1)


class Files(Dataset[tuple[torch.Tensor, int]]):
    def __len__(self) -> int:
        return 10

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        return torch.rand(1, 28, 28), index % 10


def train(model: nn.Module, device: torch.device, loader: DataLoader, optimizer: optim.Optimizer, epoch: int) -> float:
    model.train()
    total = 0.0
    for batch_idx, (data, target) in enumerate(loader):
        data, target = data.to(device), target.to(device, non_blocking=True)
        optimizer.zero_grad()
        output = model(data)
        loss = F.nll_loss(output, target)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        total += loss.item() * len(data)
        if batch_idx % 10 == 0:
            print(f"{epoch} [{batch_idx * len(data)}/{len(loader)}] {loss.item():.6f}")
    return total


@torch.no_grad()
def accuracy(model: nn.Module, loader: DataLoader) -> float:
    model.eval()
    correct, count = 0, 0
    for data, target in loader:
        output = model(data)
        pred = output.argmax(dim=1, keepdim=True)
        correct += pred.eq(target.view_as(pred)).sum().item()
        count += target.size(0)
        values, indices = output.max(1)
        correct += int((output.max(1).indices == target).sum())
        best: torch.Tensor = torch.max(output, 1).values + values + indices + output.topk(3).values.sum(1)
        print(best.mean().item(), output.sort(dim=1).indices[:, 0].tolist())
    return correct / count


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    images, labels = torch.randn(100, 1, 28, 28), torch.randint(0, 10, (100,))
    train_set, test_set = random_split(TensorDataset(images, labels), [80, 20], generator=torch.Generator())
    loader = DataLoader(train_set, batch_size=64, shuffle=True, num_workers=2, drop_last=True)
    files = DataLoader(Files(), batch_size=5)
    model = Net().to(device)
    optimizer = optim.Adadelta(model.parameters(), lr=1.0)
    scheduler = StepLR(optimizer, step_size=1, gamma=0.7)
    for epoch in range(1, 15):
        train(model, device, loader, optimizer, epoch)
        print(accuracy(model, DataLoader(test_set)), len(files), scheduler.get_last_lr()[0])
        scheduler.step()
    torch.save(model.state_dict(), "mnist.pt")
    model.load_state_dict(torch.load("mnist.pt", map_location="cpu"))
    print(sum(p.numel() for p in model.parameters() if p.requires_grad), model.conv1.weight.shape, model.fc1.bias)


if __name__ == "__main__":
    main()
