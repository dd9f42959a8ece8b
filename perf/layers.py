"""Rows of functions and layers on the sizes of known networks, and of whole steps. numod's compiled steps stand beside PyTorch's eager ones."""

from __future__ import annotations

from collections.abc import Callable

from .rows import Bar, Row, floats, window


def calling(make: Callable[[object], Callable]) -> Callable:
    """The set-up of `call()`: what `make(torch)` gives, in a block without gradients."""

    def setup(torch: object) -> dict:
        function = make(torch)

        def call() -> None:
            with torch.no_grad():
                function()

        return {"call": call}

    return setup


def function(expression: str, *shape: int) -> Callable:
    """The set-up of `call()` for an expression of x (shape), torch and F."""
    return calling(lambda torch: eval(f"lambda: {expression}", {"torch": torch, "F": torch.nn.functional, "x": torch.randn(*shape)}))  # noqa: S307  our own text


def training(make: Callable[[object], tuple], compiled: bool = False) -> Callable:
    """The set-up of `step()` from (loss function of nothing, parameters): SGD with momentum and weight decay, compiled by numod if `compiled`."""

    def setup(torch: object) -> dict:
        torch.manual_seed(0)
        loss_of, parameters = make(torch)
        optimizer = torch.optim.SGD(parameters, lr=1e-3, momentum=0.9, weight_decay=1e-4)

        def step() -> None:
            optimizer.zero_grad()
            loss_of().backward()
            optimizer.step()

        return {"step": torch.compile(step) if compiled and torch.__name__ == "numod" else step}

    return setup


def inference(make: Callable[[object], tuple]) -> Callable:
    """The set-up of `call()` from (module, input): numod's compiled, PyTorch's eager, both without gradients."""

    def setup(torch: object) -> dict:
        torch.manual_seed(0)
        module, x = make(torch)
        module.eval()
        model = torch.compile(module) if torch.__name__ == "numod" else module

        def call() -> None:
            with torch.no_grad():
                model(x)

        return {"call": call}

    return setup


def perceptron(*sizes: int, batch: int, activation: str = "ReLU") -> Callable:
    """(module, input) of a multilayer perceptron."""

    def make(torch: object) -> tuple:
        layers = []
        for inner, outer in zip(sizes, sizes[1:]):
            layers += [torch.nn.Linear(inner, outer), getattr(torch.nn, activation)()]
        return torch.nn.Sequential(*layers[:-1]), torch.randn(batch, sizes[0])

    return make


def lenet(batch: int) -> Callable:
    """(module, input) of LeNet-5."""

    def make(torch: object) -> tuple:
        nn = torch.nn
        layers = (
            nn.Conv2d(1, 6, 5, padding=2), nn.Tanh(), nn.AvgPool2d(2), nn.Conv2d(6, 16, 5), nn.Tanh(), nn.AvgPool2d(2), nn.Flatten(), nn.Linear(400, 120), nn.Tanh(),
            nn.Linear(120, 84), nn.Tanh(), nn.Linear(84, 10),
        )  # fmt: skip
        return nn.Sequential(*layers), torch.randn(batch, 1, 28, 28)

    return make


def classified(make: Callable[[object], tuple], classes: int) -> Callable:
    """(loss function, parameters) of a classifier."""

    def both(torch: object) -> tuple:
        module, x = make(torch)
        target = torch.randint(0, classes, (x.shape[0],))
        return (lambda: torch.nn.functional.cross_entropy(module(x), target)), list(module.parameters())

    return both


def regressed(make: Callable[[object], tuple]) -> Callable:
    """(loss function, parameters) of a regression to one number."""

    def both(torch: object) -> tuple:
        module, x = make(torch)
        target = torch.randn(x.shape[0], 1)
        return (lambda: torch.nn.functional.mse_loss(module(x), target)), list(module.parameters())

    return both


def lstm(backward: bool) -> Callable:
    """LSTM(128, 128) over 32 steps of 8 sequences."""

    def setup(torch: object) -> dict:
        layer, x = torch.nn.LSTM(128, 128), torch.randn(32, 8, 128)

        def forward() -> None:
            with torch.no_grad():
                layer(x)

        def both() -> None:
            layer.zero_grad()
            layer(x)[0].sum().backward()

        return {"call": both if backward else forward}

    return setup


FUNCTIONS = {
    "tanh, 1 M floats": "x.tanh()", "sigmoid, 1 M floats": "x.sigmoid()", "gelu, 1 M floats": "F.gelu(x)", "relu, 1 M floats": "x.relu()",
    "max, 1 M floats": "x.max()", "argmax of rows, 1000×1000": "x.view(1000, 1000).argmax(1)", "sum of columns, 1000×1000": "x.view(1000, 1000).sum(0)",
}  # fmt: skip
LAYERS = (
    *(Row(name, "call()", function(text, 1_000_000), bar=Bar(1.0)) for name, text in FUNCTIONS.items()),
    Row("softmax 256×1000", "call()", function("x.softmax(1)", 256, 1000), bar=Bar(0.9)),
    Row("layer_norm 512×768", "call()", function("F.layer_norm(x, (768,))", 512, 768), bar=Bar(0.9)),
    Row("batch_norm, training, 8×64×56×56", "call()", function("F.batch_norm(x, None, None, training=True)", 8, 64, 56, 56), bar=Bar(0.9)),
    Row("cross_entropy 128×1000", "call()", function("F.cross_entropy(x, x.argmax(1))", 128, 1000), bar=Bar(0.9)),
    Row("avg_pool2d 2×2, 8×64×56×56", "call()", window("avg_pool2d", (8, 64, 56, 56), backward=False, kernel_size=2)),
    Row("LSTM(128, 128), T=32 B=8, forward", "call()", lstm(False), bar=Bar(0.9)),
    Row("LSTM(128, 128), T=32 B=8, forward+backward", "call()", lstm(True), bar=Bar(0.9)),
    Row("attention 4×8×128×32", "call()", function("F.scaled_dot_product_attention(x, x, x)", 4, 8, 128, 32), bar=Bar(0.9)),
    Row("embedding 10 k × 128, 4 k indices", "call()", calling(lambda torch: (lambda table, at: lambda: torch.nn.functional.embedding(at, table))(
        torch.randn(10_000, 128), torch.randint(0, 10_000, (4000,)))), bar=Bar(0.9)),
    Row("sort, 1 M floats", "x.sort()", setup=floats(1_000_000)["setup"]),
    Row("eager step, MLP 784-256-10, batch 128", "step()", training(classified(perceptron(784, 256, 10, batch=128), 10)), bar=Bar(0.9)),
    Row("eager step, LeNet, batch 64", "step()", training(classified(lenet(64), 10)), bar=Bar(0.9)),
    Row("compiled forward, MLP 4-3-1", "call()", inference(perceptron(4, 3, 1, batch=1, activation="Tanh")), bar=Bar(0.25, peer="PyTorch")),
    Row("compiled step, MLP 4-3-1", "step()", training(regressed(perceptron(4, 3, 1, batch=1, activation="Tanh")), True), bar=Bar(0.1, peer="PyTorch")),
    Row("compiled forward, MLP 64-128-10, batch 32", "call()", inference(perceptron(64, 128, 10, batch=32)), bar=Bar(0.7, peer="PyTorch")),
    Row("compiled step, MLP 64-128-10, batch 32", "step()", training(classified(perceptron(64, 128, 10, batch=32), 10), True), bar=Bar(0.6, peer="PyTorch")),
    Row("compiled forward, MLP 784-256-10, batch 128", "call()", inference(perceptron(784, 256, 10, batch=128)), bar=Bar(0.95, peer="PyTorch")),
    Row("compiled step, MLP 784-256-10, batch 128", "step()", training(classified(perceptron(784, 256, 10, batch=128), 10), True), bar=Bar(0.95, peer="PyTorch")),
    Row("compiled forward, LeNet, batch 1", "call()", inference(lenet(1)), bar=Bar(0.9, peer="PyTorch")),
    Row("compiled step, LeNet, batch 64", "step()", training(classified(lenet(64), 10), True), bar=Bar(0.9, peer="PyTorch")),
)  # fmt: skip
