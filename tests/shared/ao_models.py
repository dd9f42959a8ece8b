"""Models of the tests of quantization, for numod and for PyTorch."""

import io


def every_layer(lib):
    """A model with a layer of each kind that `convert` replaces; not all are called."""
    nn, quantization = lib.nn, lib.ao.quantization

    class EveryLayer(nn.Module):
        def __init__(self):
            super().__init__()
            self.quant, self.dequant = quantization.QuantStub(), quantization.DeQuantStub()
            self.conv, self.bn, self.relu = nn.Conv2d(1, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU()
            self.depthwise = nn.Conv2d(4, 4, 3, groups=4, bias=False)
            self.fc, self.relu2, self.fc2 = nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 3)
            self.ff = nn.quantized.FloatFunctional()
            self.bn2, self.hardswish, self.norm = nn.BatchNorm2d(4), nn.Hardswish(), nn.LayerNorm(3)
            self.elu, self.leaky, self.relu6 = nn.ELU(), nn.LeakyReLU(), nn.ReLU6()
            self.sigmoid, self.group, self.dropout = nn.Sigmoid(), nn.GroupNorm(2, 4), nn.Dropout()
            self.conv1 = nn.Conv1d(2, 2, 1)

        def forward(self, x):
            x = self.relu(self.bn(self.conv(self.quant(x))))
            x = self.depthwise(x).mean((2, 3))
            first, second = (self.fc2(self.relu2(self.fc(x))) for _ in range(2))
            return self.dequant(self.ff.add(first, second))

    return EveryLayer()


def functional(lib):
    """A model for graph mode: functions between layers, a layer that is called twice, a residual connection."""
    nn, F = lib.nn, lib.nn.functional

    class Functional(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv, self.bn, self.relu = nn.Conv2d(1, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU()
            self.depthwise, self.pool = nn.Conv2d(4, 4, 3, padding=1, groups=4), nn.MaxPool2d(2)
            self.fc, self.norm = nn.Linear(64, 8), nn.LayerNorm(8)
            self.weight, self.offset = nn.Parameter(lib.randn(5, 8)), nn.Parameter(lib.randn(5))

        def forward(self, x):
            x = self.relu(self.bn(self.conv(x)))
            x = self.pool(self.relu(self.depthwise(x) + x))
            x = lib.cat([x, x * x], 1)[:, :4]
            x = F.relu(self.fc(x.reshape(x.size(0), -1)))
            x = F.linear(self.norm(x), self.weight, self.offset)
            product = lib.matmul(x, x.t()) * 2 + 1
            return x + F.softmax(x, 1), product.tanh(), lib.sigmoid(x)

    return Functional()


GROUPS = [["conv", "bn", "relu"], ["fc", "relu2"]]


def recurrent(lib):
    """A model with the layers that are quantized dynamically."""
    nn = lib.nn

    class Recurrent(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.lstm = nn.Linear(4, 3), nn.LSTM(3, 5, 2, bidirectional=True, batch_first=True)
            self.gru, self.lstm_cell = nn.GRU(3, 5), nn.LSTMCell(3, 4)
            self.gru_cell, self.rnn_cell = nn.GRUCell(3, 4), nn.RNNCell(3, 4)
            self.bag, self.table = nn.EmbeddingBag(10, 4, mode="sum"), nn.Embedding(10, 4)

        def results(self, lib, x):
            """The results of all layers for x (2, T, 3)."""
            y, (h, c) = self.lstm(x)
            cells = self.lstm_cell(x[0])[1], self.gru_cell(x[0]), self.rnn_cell(x[0])
            return y, h, c, self.gru(x)[0], *cells, self.a(lib.ones(2, 4) * 0.7)

    return Recurrent()


def load_from(source, theirs, target, ours):
    """Load the state of `theirs`, a module of `source`, into `ours` through a file."""
    file = io.BytesIO()
    source.save(theirs.state_dict(), file)
    file.seek(0)
    ours.load_state_dict(target.load(file))
