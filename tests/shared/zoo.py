"""Small models in the style of people's model files.

Each function takes the library (`torch` or numod) and gives (model, inputs, loss of the outputs).
"""

from __future__ import annotations

import math

import numpy as np

RNG = np.random.default_rng


def lenet(torch):
    nn, F = torch.nn, torch.nn.functional

    class LeNet(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv1 = nn.Conv2d(1, 6, 5, padding=2)
            self.conv2 = nn.Conv2d(6, 16, 5)
            self.fc1, self.fc2, self.fc3 = nn.Linear(16 * 5 * 5, 120), nn.Linear(120, 84), nn.Linear(84, 10)

        def forward(self, x):
            x = F.max_pool2d(F.relu(self.conv1(x)), 2)
            x = F.max_pool2d(F.relu(self.conv2(x)), (2, 2))
            x = torch.flatten(x, 1)
            return self.fc3(F.relu(self.fc2(F.relu(self.fc1(x)))))

    y = torch.tensor(RNG(1).integers(0, 10, 4))
    return (
        LeNet(),
        [torch.tensor(RNG(0).standard_normal((4, 1, 28, 28)).astype(np.float32))],
        lambda out: F.cross_entropy(out, y),
    )


def alexnet(torch):
    nn = torch.nn

    class AlexNet(nn.Module):
        def __init__(self, num_classes=10, dropout=0.0):
            super().__init__()
            self.features = nn.Sequential(
                nn.Conv2d(3, 64, kernel_size=11, stride=4, padding=2), nn.ReLU(inplace=True),
                nn.MaxPool2d(kernel_size=3, stride=2), nn.Conv2d(64, 192, kernel_size=5, padding=2),
                nn.ReLU(inplace=True),
                nn.MaxPool2d(kernel_size=3, stride=2), nn.Conv2d(192, 384, kernel_size=3, padding=1),
                nn.ReLU(inplace=True), nn.Conv2d(384, 256, kernel_size=3, padding=1), nn.ReLU(inplace=True),
                nn.Conv2d(256, 256, kernel_size=3, padding=1), nn.ReLU(inplace=True),
                nn.MaxPool2d(kernel_size=3, stride=2),
            )  # fmt: skip
            self.avgpool = nn.AdaptiveAvgPool2d((6, 6))
            self.classifier = nn.Sequential(
                nn.Dropout(p=dropout), nn.Linear(256 * 6 * 6, 4096), nn.ReLU(inplace=True), nn.Dropout(p=dropout),
                nn.Linear(4096, 4096), nn.ReLU(inplace=True), nn.Linear(4096, num_classes),
            )  # fmt: skip

        def forward(self, x):
            return self.classifier(torch.flatten(self.avgpool(self.features(x)), 1))

    return (
        AlexNet(),
        [torch.tensor(RNG(0).standard_normal((1, 3, 224, 224)).astype(np.float32))],
        lambda out: out.square().mean(),
    )


def resnet18(torch):
    nn, F = torch.nn, torch.nn.functional

    class BasicBlock(nn.Module):
        expansion = 1

        def __init__(self, in_planes, planes, stride=1):
            super().__init__()
            self.conv1 = nn.Conv2d(in_planes, planes, kernel_size=3, stride=stride, padding=1, bias=False)
            self.bn1 = nn.BatchNorm2d(planes)
            self.conv2 = nn.Conv2d(planes, planes, kernel_size=3, stride=1, padding=1, bias=False)
            self.bn2 = nn.BatchNorm2d(planes)
            self.shortcut = nn.Sequential()
            if stride != 1 or in_planes != planes:
                self.shortcut = nn.Sequential(
                    nn.Conv2d(in_planes, planes, kernel_size=1, stride=stride, bias=False), nn.BatchNorm2d(planes)
                )

        def forward(self, x):
            out = F.relu(self.bn1(self.conv1(x)))
            out = self.bn2(self.conv2(out))
            out += self.shortcut(x)
            return F.relu(out)

    class ResNet(nn.Module):
        def __init__(self, num_blocks=(2, 2, 2, 2), width=8, num_classes=10):
            super().__init__()
            self.in_planes = width
            self.conv1 = nn.Conv2d(3, width, kernel_size=3, stride=1, padding=1, bias=False)
            self.bn1 = nn.BatchNorm2d(width)
            self.layer1 = self._make_layer(width, num_blocks[0], 1)
            self.layer2 = self._make_layer(2 * width, num_blocks[1], 2)
            self.layer3 = self._make_layer(4 * width, num_blocks[2], 2)
            self.layer4 = self._make_layer(8 * width, num_blocks[3], 2)
            self.linear = nn.Linear(8 * width, num_classes)

        def _make_layer(self, planes, num_blocks, stride):
            layers = []
            for block_stride in [stride] + [1] * (num_blocks - 1):
                layers.append(BasicBlock(self.in_planes, planes, block_stride))
                self.in_planes = planes
            return nn.Sequential(*layers)

        def forward(self, x):
            out = F.relu(self.bn1(self.conv1(x)))
            out = self.layer4(self.layer3(self.layer2(self.layer1(out))))
            out = F.avg_pool2d(out, 4)
            return self.linear(out.view(out.size(0), -1))

    y = torch.tensor([1, 3])
    return (
        ResNet(),
        [torch.tensor(RNG(0).standard_normal((2, 3, 32, 32)).astype(np.float32))],
        lambda out: F.cross_entropy(out, y, label_smoothing=0.1),
    )


def mobilenet(torch):
    nn = torch.nn

    def block(inp, oup, stride):
        return nn.Sequential(
            nn.Conv2d(inp, inp, 3, stride, 1, groups=inp, bias=False), nn.BatchNorm2d(inp), nn.ReLU6(inplace=True),
            nn.Conv2d(inp, oup, 1, 1, 0, bias=False), nn.BatchNorm2d(oup), nn.Hardswish(),
        )  # fmt: skip

    model = nn.Sequential(
        nn.Conv2d(3, 8, 3, 2, 1),
        block(8, 16, 1),
        block(16, 32, 2),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(32, 5),
    )
    return model, [torch.tensor(RNG(0).standard_normal((4, 3, 24, 24)).astype(np.float32))], lambda out: (out**2).mean()


def unet(torch):
    nn, F = torch.nn, torch.nn.functional

    def double(inp, out):
        return nn.Sequential(
            nn.Conv2d(inp, out, 3, padding=1),
            nn.GroupNorm(2, out),
            nn.SiLU(),
            nn.Conv2d(out, out, 3, padding=1),
            nn.InstanceNorm2d(out, affine=True),
            nn.LeakyReLU(0.1),
        )

    class UNet(nn.Module):
        def __init__(self):
            super().__init__()
            self.down1, self.down2, self.middle = double(1, 4), double(4, 8), double(8, 16)
            self.up2, self.up1 = (
                nn.ConvTranspose2d(16, 8, 2, stride=2),
                nn.Upsample(scale_factor=2, mode="bilinear", align_corners=False),
            )
            self.merge2, self.merge1, self.head = double(16, 8), double(12, 4), nn.Conv2d(4, 2, 1)

        def forward(self, x):
            a = self.down1(x)
            b = self.down2(F.max_pool2d(a, 2))
            c = self.middle(F.avg_pool2d(b, 2))
            c = self.merge2(torch.cat([self.up2(c), b], dim=1))
            return self.head(self.merge1(torch.cat([self.up1(c), a], dim=1)))

    y = torch.tensor(RNG(1).integers(0, 2, (2, 16, 16)))
    return (
        UNet(),
        [torch.tensor(RNG(0).standard_normal((2, 1, 16, 16)).astype(np.float32))],
        lambda out: F.cross_entropy(out, y),
    )


def lstm_language_model(torch):
    nn, F = torch.nn, torch.nn.functional

    class Model(nn.Module):
        def __init__(self, ntoken=20, ninp=12, nhid=16, nlayers=2):
            super().__init__()
            self.encoder, self.rnn, self.decoder = (
                nn.Embedding(ntoken, ninp),
                nn.LSTM(ninp, nhid, nlayers, dropout=0.0),
                nn.Linear(nhid, ntoken),
            )
            self.ntoken = ntoken

        def forward(self, x):
            output, (hidden, cell) = self.rnn(self.encoder(x))
            return F.log_softmax(self.decoder(output).view(-1, self.ntoken), dim=1)

    tokens = torch.tensor(RNG(0).integers(0, 20, (7, 3)))
    return Model(), [tokens], lambda out: F.nll_loss(out, tokens.view(-1))


def gru_classifier(torch):
    nn = torch.nn

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.rnn = nn.GRU(5, 8, batch_first=True, bidirectional=True)
            self.head = nn.Linear(16, 3)

        def forward(self, x):
            output, hidden = self.rnn(x)
            return self.head(output[:, -1]) + hidden.sum()

    return Model(), [torch.tensor(RNG(0).standard_normal((2, 6, 5)).astype(np.float32))], lambda out: (out**2).mean()


def gpt(torch):
    nn, F = torch.nn, torch.nn.functional

    class CausalSelfAttention(nn.Module):
        def __init__(self, n_embd, n_head, block_size):
            super().__init__()
            self.c_attn, self.c_proj = nn.Linear(n_embd, 3 * n_embd), nn.Linear(n_embd, n_embd)
            self.n_head, self.n_embd = n_head, n_embd
            self.register_buffer(
                "bias", torch.tril(torch.ones(block_size, block_size)).view(1, 1, block_size, block_size)
            )

        def forward(self, x):
            B, T, C = x.size()
            q, k, v = self.c_attn(x).split(self.n_embd, dim=2)
            q, k, v = (tensor.view(B, T, self.n_head, C // self.n_head).transpose(1, 2) for tensor in (q, k, v))
            att = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
            att = att.masked_fill(self.bias[:, :, :T, :T] == 0, float("-inf"))
            y = F.softmax(att, dim=-1) @ v
            return self.c_proj(y.transpose(1, 2).contiguous().view(B, T, C))

    class Block(nn.Module):
        def __init__(self, n_embd, n_head, block_size):
            super().__init__()
            self.ln_1, self.attn, self.ln_2 = (
                nn.LayerNorm(n_embd),
                CausalSelfAttention(n_embd, n_head, block_size),
                nn.LayerNorm(n_embd),
            )
            self.mlp = nn.ModuleDict(
                dict(
                    c_fc=nn.Linear(n_embd, 4 * n_embd),
                    act=nn.GELU(approximate="tanh"),
                    c_proj=nn.Linear(4 * n_embd, n_embd),
                    dropout=nn.Dropout(0.0),
                )
            )

        def forward(self, x):
            x = x + self.attn(self.ln_1(x))
            m = self.mlp
            return (
                x + m.dropout(m.c_proj(m.act(m.c_fc(self.ln_2(x)))))
                if hasattr(m, "c_proj")
                else x + m["c_proj"](m["act"](m["c_fc"](self.ln_2(x))))
            )

    class GPT(nn.Module):
        def __init__(self, vocab_size=30, block_size=16, n_layer=2, n_head=4, n_embd=32):
            super().__init__()
            self.transformer = nn.ModuleDict(dict(
                wte=nn.Embedding(vocab_size, n_embd), wpe=nn.Embedding(block_size, n_embd),
                h=nn.ModuleList([Block(n_embd, n_head, block_size) for _ in range(n_layer)]), ln_f=nn.LayerNorm(n_embd),
            ))  # fmt: skip
            self.lm_head = nn.Linear(n_embd, vocab_size, bias=False)
            self.lm_head.weight = self.transformer["wte"].weight

        def forward(self, idx):
            b, t = idx.size()
            pos = torch.arange(0, t, dtype=torch.long, device=idx.device).unsqueeze(0)
            x = self.transformer["wte"](idx) + self.transformer["wpe"](pos)
            for block in self.transformer["h"]:
                x = block(x)
            return self.lm_head(self.transformer["ln_f"](x))

    tokens = torch.tensor(RNG(0).integers(0, 30, (2, 10)))
    return GPT(), [tokens], lambda out: F.cross_entropy(out.view(-1, out.size(-1)), tokens.view(-1), ignore_index=-1)


def vit(torch):
    nn = torch.nn

    class ViT(nn.Module):
        def __init__(self, size=16, patch=4, dim=24, depth=2, heads=3, classes=5):
            super().__init__()
            self.patch = nn.Conv2d(3, dim, patch, stride=patch)
            self.cls_token = nn.Parameter(torch.zeros(1, 1, dim))
            self.pos = nn.Parameter(torch.zeros(1, (size // patch) ** 2 + 1, dim))
            layer = nn.TransformerEncoderLayer(
                dim, heads, 48, dropout=0.0, activation="gelu", batch_first=True, norm_first=True
            )
            self.encoder = nn.TransformerEncoder(layer, depth, enable_nested_tensor=False)
            self.head = nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, classes))

        def forward(self, x):
            x = self.patch(x).flatten(2).transpose(1, 2)
            x = torch.cat((self.cls_token.expand(x.shape[0], -1, -1), x), dim=1) + self.pos
            return self.head(self.encoder(x)[:, 0])

    y = torch.tensor([0, 4])
    return (
        ViT(),
        [torch.tensor(RNG(0).standard_normal((2, 3, 16, 16)).astype(np.float32))],
        lambda out: torch.nn.functional.cross_entropy(out, y),
    )


def vae(torch):
    nn, F = torch.nn, torch.nn.functional

    class VAE(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc1, self.fc21, self.fc22 = nn.Linear(20, 16), nn.Linear(16, 4), nn.Linear(16, 4)
            self.fc3, self.fc4 = nn.Linear(4, 16), nn.Linear(16, 20)

        def forward(self, x, noise):
            h = F.relu(self.fc1(x))
            mu, logvar = self.fc21(h), self.fc22(h)
            z = mu + noise * torch.exp(0.5 * logvar)
            return torch.sigmoid(self.fc4(F.relu(self.fc3(z)))), mu, logvar

    x, noise = (torch.tensor(RNG(k).random((5, n)).astype(np.float32)) for k, n in ((0, 20), (1, 4)))

    def loss(out):
        recon, mu, logvar = out
        return F.binary_cross_entropy(recon, x, reduction="sum") - 0.5 * torch.sum(
            1 + logvar - mu.pow(2) - logvar.exp()
        )

    return VAE(), [x, noise], loss


def actor_critic(torch):
    nn = torch.nn

    class ActorCritic(nn.Module):
        def __init__(self, obs=6, act=3):
            super().__init__()
            self.critic = nn.Sequential(self.init(nn.Linear(obs, 16)), nn.Tanh(), self.init(nn.Linear(16, 1)))
            self.actor = nn.Sequential(self.init(nn.Linear(obs, 16)), nn.Tanh(), self.init(nn.Linear(16, act)))
            self.log_std = nn.Parameter(torch.zeros(1, act))

        @staticmethod
        def init(layer, std=1.4142135623730951, bias_const=0.0):
            torch.nn.init.orthogonal_(layer.weight, std)
            torch.nn.init.constant_(layer.bias, bias_const)
            return layer

        def forward(self, x):
            return self.actor(x), self.log_std.exp(), self.critic(x).squeeze(-1)

    x, actions, advantages = (
        torch.tensor(RNG(k).standard_normal(shape).astype(np.float32)) for k, shape in enumerate(((8, 6), (8, 3), (8,)))
    )

    def loss(out):
        mean, std, value = out
        log_prob = (-((actions - mean) ** 2) / (2 * std**2) - torch.log(std) - 0.5 * math.log(2 * math.pi)).sum(-1)
        ratio = torch.exp(log_prob - log_prob.detach() + 0.1)
        clipped = torch.clamp(ratio, 0.8, 1.2) * advantages
        return -torch.min(ratio * advantages, clipped).mean() + 0.5 * ((value - advantages) ** 2).mean()

    return ActorCritic(), [x], loss


def gcn(torch):
    nn = torch.nn

    class GCNLayer(nn.Module):
        def __init__(self, inp, out):
            super().__init__()
            self.lin = nn.Linear(inp, out, bias=False)
            self.bias = nn.Parameter(torch.zeros(out))

        def forward(self, x, edge_index):
            row, col = edge_index
            deg = torch.zeros(x.size(0)).index_add(0, col, torch.ones(col.size(0)))
            norm = deg.pow(-0.5)
            norm = norm.masked_fill(norm == float("inf"), 0.0)
            messages = self.lin(x)[row] * (norm[row] * norm[col]).unsqueeze(-1)
            return (
                torch.zeros(x.size(0), messages.size(1)).scatter_add(0, col.unsqueeze(-1).expand_as(messages), messages)
                + self.bias
            )

    class GCN(nn.Module):
        def __init__(self):
            super().__init__()
            self.one, self.two = GCNLayer(5, 8), GCNLayer(8, 3)

        def forward(self, x, edges):
            return self.two(torch.relu(self.one(x, edges)), edges)

    edges = torch.tensor(RNG(1).integers(0, 9, (2, 20)))
    return (
        GCN(),
        [torch.tensor(RNG(0).standard_normal((9, 5)).astype(np.float32)), edges],
        lambda out: torch.nn.functional.cross_entropy(out, edges[0, :9] % 3),
    )


MODELS = {
    layer.__name__: layer
    for layer in (
        lenet,
        alexnet,
        resnet18,
        mobilenet,
        unet,
        lstm_language_model,
        gru_classifier,
        gpt,
        vit,
        vae,
        actor_critic,
        gcn,
    )
}


def step_of(model, loss_of, optimizer):
    """A step of training: a function of the inputs that gives the loss."""

    def step(*inputs):
        optimizer.zero_grad()
        loss = loss_of(model(*inputs))
        loss.backward()
        optimizer.step()
        return loss

    return step
