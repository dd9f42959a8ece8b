"""The samples of PyTorch's note "Modules", run with numod in torch's place: the same text up to the numbers."""

import re
from collections import OrderedDict

import pytest

import numod as torch
import numod.nn.functional as F
from numod import nn


def shape_of(text):
    """`text` with every number made N, and padding removed."""
    return re.sub(r"\s+", " ", re.sub(r"(?<!\w)-?\d+\.\d*(e[-+]\d+)?", "N", str(text)).replace("[ ", "["))


class MyLinear(nn.Module):
    def __init__(self, in_features, out_features):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(in_features, out_features))
        self.bias = nn.Parameter(torch.randn(out_features))

    def forward(self, input):
        return (input @ self.weight) + self.bias


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.l0 = MyLinear(4, 3)
        self.l1 = MyLinear(3, 1)

    def forward(self, x):
        x = self.l0(x)
        x = F.relu(x)
        x = self.l1(x)
        return x


class BigNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.l1 = MyLinear(5, 4)
        self.net = Net()

    def forward(self, x):
        return self.net(self.l1(x))


class DynamicNet(nn.Module):
    def __init__(self, num_layers):
        super().__init__()
        self.linears = nn.ModuleList([MyLinear(4, 4) for _ in range(num_layers)])
        self.activations = nn.ModuleDict({"relu": nn.ReLU(), "lrelu": nn.LeakyReLU()})
        self.final = MyLinear(4, 1)

    def forward(self, x, act):
        for linear in self.linears:
            x = linear(x)
            x = self.activations[act](x)
        x = self.final(x)
        return x


def test_a_simple_custom_module():
    m = MyLinear(4, 3)
    sample_input = torch.randn(4)
    assert shape_of(m(sample_input)) == "tensor([N, N, N], grad_fn=<AddBackward0>)"
    weight, bias = m.named_parameters()
    assert shape_of(weight) == (
        "('weight', Parameter containing: tensor([[N, N, N], [N, N, N], [N, N, N], [N, N, N]], requires_grad=True))"
    )
    assert shape_of(bias) == "('bias', Parameter containing: tensor([N, N, N], requires_grad=True))"


def test_modules_as_building_blocks():
    net = nn.Sequential(MyLinear(4, 3), nn.ReLU(), MyLinear(3, 1))
    assert shape_of(net(torch.randn(4))) == "tensor([N], grad_fn=<AddBackward0>)"


def test_named_children(capsys):
    for child in Net().named_children():
        print(child)
    assert capsys.readouterr().out == "('l0', MyLinear())\n('l1', MyLinear())\n"


def test_named_modules_of_big_net(capsys):
    for module in BigNet().named_modules():
        print(module)
    assert capsys.readouterr().out == (
        "('', BigNet(\n  (l1): MyLinear()\n  (net): Net(\n    (l0): MyLinear()\n    (l1): MyLinear()\n  )\n))\n"
        "('l1', MyLinear())\n('net', Net(\n  (l0): MyLinear()\n  (l1): MyLinear()\n))\n('net.l0', "
        "MyLinear())\n('net.l1', MyLinear())\n"
    )


def test_dynamic_net():
    dynamic_net = DynamicNet(3)
    assert shape_of(dynamic_net(torch.randn(4), "relu")) == "tensor([N], grad_fn=<AddBackward0>)"
    assert [name for name, _ in dynamic_net.named_parameters()] == [
        f"{path}.{kind}" for path in ("linears.0", "linears.1", "linears.2", "final") for kind in ("weight", "bias")
    ]


def test_big_net_parameters_are_shown():
    shown = [shape_of(parameter) for parameter in BigNet().named_parameters()]
    names = ["l1.weight", "l1.bias", "net.l0.weight", "net.l0.bias", "net.l1.weight", "net.l1.bias"]
    assert [text.split(",")[0] for text in shown] == [f"('{name}'" for name in names]
    assert shown[-1] == "('net.l1.bias', Parameter containing: tensor([N], requires_grad=True))"


def test_moving_and_precision():
    dynamic_net = DynamicNet(2)
    assert dynamic_net.to(device="cpu") is dynamic_net
    dynamic_net.to(dtype=torch.float64)
    result = dynamic_net(torch.randn(4, device="cpu", dtype=torch.float64), "lrelu")
    assert shape_of(result) == "tensor([N], dtype=DTYPE, grad_fn=<AddBackward0>)".replace("DTYPE", str(torch.float64))


def test_apply_initialises():
    @torch.no_grad()
    def init_weights(m):
        if isinstance(m, nn.Linear):
            nn.init.xavier_normal_(m.weight)
            m.bias.fill_(0.0)

    net = nn.Sequential(nn.Linear(4, 4), nn.Sequential(nn.Linear(4, 2)))
    net.apply(init_weights)
    assert net[0].bias.tolist() == [0] * 4 and net[1][0].bias.tolist() == [0, 0]


def test_training_learns_the_zero_function():
    torch.manual_seed(0)
    net = Net()
    optimizer = torch.optim.SGD(net.parameters(), lr=1e-4, weight_decay=1e-2, momentum=0.9)
    for _ in range(10000):
        input = torch.randn(4)
        output = net(input)
        loss = torch.abs(output)
        net.zero_grad()
        loss.backward()
        optimizer.step()
    net.eval()
    assert shape_of(net.l1.weight) == "Parameter containing: tensor([[N], [N], [N]], requires_grad=True)"
    outputs = [abs(net(torch.randn(4)).item()) for _ in range(20)]
    assert sum(outputs) / len(outputs) < 0.05


def test_train_and_eval_modes():
    class ModalModule(nn.Module):
        def forward(self, x):
            if self.training:
                return x + 1.0
            return x

    m = ModalModule()
    x = torch.zeros(2)
    assert m(x).tolist() == [1, 1]
    m.eval()
    assert m(x).tolist() == [0, 0]


def test_saving_and_loading(tmp_path):
    if not hasattr(torch, "save"):
        pytest.skip("numod.save does not exist yet")
    net, new_net, path = Net(), Net(), tmp_path / "net.pt"
    torch.save(net.state_dict(), path)
    assert str(new_net.load_state_dict(torch.load(path))) == "<All keys matched successfully>"
    sample = torch.randn(4)
    assert new_net(sample).tolist() == net(sample).tolist()


class RunningMean(nn.Module):
    def __init__(self, num_features, momentum=0.9):
        super().__init__()
        self.momentum = momentum
        self.register_buffer("mean", torch.zeros(num_features))

    def forward(self, x):
        self.mean = self.momentum * self.mean + (1.0 - self.momentum) * x
        return self.mean


def test_running_mean():
    m = RunningMean(4)
    for _ in range(10):
        m(torch.randn(4))
    assert shape_of(m.state_dict()) == shape_of(OrderedDict(mean=m.mean)) and shape_of(m.mean) == "tensor([N, N, N, N])"
    other = RunningMean(4)
    other.load_state_dict(m.state_dict())
    assert other.mean.tolist() == m.mean.tolist()
    assert m.to(dtype=torch.float64).mean.dtype == torch.float64


class StatefulModule(nn.Module):
    def __init__(self):
        super().__init__()
        self.param1 = nn.Parameter(torch.randn(2))
        self.register_parameter("param2", nn.Parameter(torch.randn(3)))
        self.register_parameter("param3", None)
        self.param_list = nn.ParameterList([nn.Parameter(torch.randn(2)) for i in range(3)])
        self.param_dict = nn.ParameterDict({"foo": nn.Parameter(torch.randn(3)), "bar": nn.Parameter(torch.randn(4))})
        self.register_buffer("buffer1", torch.randn(4), persistent=True)
        self.register_buffer("buffer2", torch.randn(5), persistent=False)
        self.register_buffer("buffer3", None)
        self.linear = nn.Linear(2, 3)


def test_stateful_module():
    m, m_loaded = StatefulModule(), StatefulModule()
    assert list(m.state_dict()) == [
        "param1", "param2", "buffer1", "param_list.0", "param_list.1", "param_list.2", "param_dict.bar",
        "param_dict.foo", "linear.weight", "linear.bias",
    ]  # fmt: skip
    m_loaded.load_state_dict(m.state_dict())
    assert (
        m_loaded.param_dict["foo"].tolist() == m.param_dict["foo"].tolist()
        and m_loaded.buffer2.tolist() != m.buffer2.tolist()
    )


def test_hooks_of_all_kinds():
    torch.manual_seed(1)

    def forward_pre_hook(m, inputs):
        return inputs[0] + 1.0

    def forward_hook(m, inputs, output):
        return output + inputs[0]

    def backward_hook(m, grad_inputs, grad_outputs):
        return [torch.ones_like(gi) * 42.0 for gi in grad_inputs]

    m = nn.Linear(3, 3)
    x = torch.randn(2, 3, requires_grad=True)
    plain, moved = m(x), m(x + 1.0)

    handle = m.register_forward_pre_hook(forward_pre_hook)
    assert m(x).tolist() == moved.tolist() != plain.tolist()
    handle.remove()
    assert m(x).tolist() == plain.tolist()

    handle = m.register_forward_hook(forward_hook)
    assert m(x).tolist() == (m.forward(x) + x).tolist()
    handle.remove()
    assert m(x).tolist() == plain.tolist()

    handle = m.register_full_backward_hook(backward_hook)
    m(x).sum().backward()
    assert x.grad.tolist() == [[42.0] * 3] * 2
    handle.remove()
    x.grad = None
    m(x).sum().backward()
    assert x.grad.tolist() != [[42.0] * 3] * 2
