"""The eager recipe: what a user does with it, and what it refuses. Values side by side: `test_recipe_parity`."""

import copy

import pytest

import numod as torch
from ao_models import GROUPS, every_layer, recurrent
from numod import nn
from numod.ao import quantization

pytestmark = pytest.mark.filterwarnings("ignore:Please use quant_min", "ignore:must run observer")


@pytest.fixture(scope="module")
def static():
    """(the float model, the quantized one, an input)."""
    torch.manual_seed(0)
    model = every_layer(torch).eval()
    model.qconfig = quantization.get_default_qconfig("x86")
    x = torch.randn(8, 1, 8, 8)
    prepared = quantization.prepare(quantization.fuse_modules(model, GROUPS))
    prepared(x)
    return model, quantization.convert(prepared), x


def test_the_integer_model_is_close_to_the_float_one(static):
    model, quantized, x = static
    error, size = (quantized(x) - model(x)).abs().max(), model(x).abs().max()
    assert error < 0.1 * size


def test_both_paths_are_one_module():
    import numod.quantization
    import numod.quantization.observer

    assert numod.quantization is quantization and numod.quantization.observer is quantization.observer
    assert nn.quantized is torch.ao.nn.quantized and nn.intrinsic.qat is torch.ao.nn.intrinsic.qat


def test_texts_are_pytorchs(static):
    text = repr(static[1])
    assert "(conv): QuantizedConvReLU2d(1, 4, kernel_size=(3, 3), stride=(1, 1), scale=" in text
    assert "(fc): QuantizedLinearReLU(in_features=4, out_features=3, scale=" in text
    assert "qscheme=numod.per_channel_affine)" in text and "(bn): Identity()" in text and "DeQuantize()" in text


def test_a_state_dict_loads_in_another_model(static, tmp_path):
    _, quantized, x = static
    for name in ("model.pt", "model.safetensors"):
        torch.save(quantized.state_dict(), tmp_path / name)
        other = copy.deepcopy(quantized)
        other.fc.set_weight_bias(torch.quantize_per_tensor(torch.zeros(3, 4), 1.0, 0, torch.qint8), None)
        other.load_state_dict(torch.load(tmp_path / name))
        assert other(x).equal(quantized(x))


def test_the_weights_take_a_quarter_of_the_bytes(static):
    weight = static[1].fc.weight()
    assert weight.element_size() == 1 and weight.int_repr().dtype is torch.int8


def test_a_float_checkpoint_says_what_to_do(static):
    model, quantized, _ = static
    with pytest.raises(RuntimeError, match="conv.weight is a float weight.*load the checkpoint into the float model"):
        copy.deepcopy(quantized).load_state_dict(model.state_dict())
    float_model = recurrent(torch)
    with pytest.raises(RuntimeError, match="is a float weight"):
        quantization.quantize_dynamic(float_model).load_state_dict(float_model.state_dict())


def test_quantized_models_compile(static):
    _, quantized, x = static
    compiled = torch.compile(copy.deepcopy(quantized), fullgraph=True)
    assert compiled(x).equal(quantized(x))
    assert compiled(x * 2).equal(quantized(x * 2))


def test_dynamic_layers_compile():
    layer = quantization.quantize_dynamic(nn.Sequential(nn.Linear(4, 3)))
    x = torch.randn(2, 4)
    assert torch.allclose(torch.compile(layer, fullgraph=True)(x), layer(x))


def test_a_layer_without_a_stub_is_refused(static):
    with pytest.raises(NotImplementedError, match="put a QuantStub before it"):
        static[1].fc(torch.randn(2, 4))
    with pytest.raises(NotImplementedError, match="put a QuantStub before it"):
        static[1].conv(torch.randn(2, 1, 4, 4))


def test_uncalibrated_observers_warn():
    with pytest.warns(UserWarning, match="must run observer before"):
        scale, zero_point = quantization.MinMaxObserver().calculate_qparams()
    assert (scale.item(), zero_point.item()) == (1.0, 0)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: quantization.MinMaxObserver(quant_min=5, quant_max=10), AssertionError, "must include 0"),
        (lambda: quantization.MinMaxObserver(qscheme=torch.per_channel_affine), NotImplementedError, "only support"),
        (lambda: quantization.QConfig(quantization.MinMaxObserver(), None), ValueError, "observer class instead"),
        (lambda: quantization.get_default_qconfig("tpu"), AssertionError, "not supported"),
        (lambda: quantization.prepare_qat(nn.Linear(1, 1).eval()), AssertionError, "training mode"),
        (lambda: quantization.fuse_modules(nn.Sequential(nn.ReLU(), nn.ReLU()), ["0", "1"]), AssertionError, "fuser"),
        (lambda: quantization.quantize_dynamic(nn.Linear(1, 1), dtype=torch.qint32), ValueError, "Don't know how"),
        (lambda: setattr(torch.backends.quantized, "engine", "mkl"), RuntimeError, "quantized engine"),
    ],
)
def test_refusals(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_a_model_without_a_qconfig_is_warned_of():
    with pytest.warns(UserWarning, match="None of the submodule got qconfig"):
        quantization.prepare(nn.Sequential(nn.Linear(1, 1)))


def test_training_improves_the_rounded_model():
    torch.manual_seed(0)
    model = every_layer(torch).train()
    model.qconfig = quantization.get_default_qat_qconfig("x86")
    model = quantization.prepare_qat(quantization.fuse_modules_qat(model, GROUPS))
    optimizer, x = torch.optim.SGD(model.parameters(), lr=0.05), torch.randn(8, 1, 8, 8)
    losses = []
    for _ in range(4):
        loss = (model(x) - 1).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0]
    model.apply(quantization.disable_observer)
    model.apply(nn.intrinsic.qat.freeze_bn_stats)
    assert not model.conv.bn.training and model.conv.to_float()[0].weight.equal(model.conv.fused_parameters()[0])
    trained = model.eval()
    quantized = quantization.convert(trained)
    assert (quantized(x) - trained(x)).abs().max() < 0.1


@pytest.mark.parametrize("training", [False, True])
def test_layers_with_masks_are_quantized(training):
    from numod.ao.pruning import WeightNormSparsifier

    model = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 4))
    sparsifier = WeightNormSparsifier(sparsity_level=0.5, sparse_block_shape=(1, 4))
    sparsifier.prepare(model, [{"tensor_fqn": "0.weight"}])
    sparsifier.step()
    fuse = quantization.fuse_modules_qat if training else quantization.fuse_modules
    wrapped = quantization.QuantWrapper(fuse(model.train(training), ["0", "1"])).train(training)
    wrapped.qconfig = (quantization.get_default_qat_qconfig if training else quantization.get_default_qconfig)("onednn")
    prepared = (quantization.prepare_qat if training else quantization.prepare)(wrapped)
    prepared(torch.randn(16, 8))
    weight = quantization.convert(prepared.eval()).module[0].weight()
    assert (weight.int_repr() == 0).float().mean() >= 0.5


def test_weights_stay_in_the_range_of_their_observer():
    from numod.ao.nn.quantized.modules.utils import _quantize_weight

    observer = quantization.MinMaxObserver(
        dtype=torch.qint8, qscheme=torch.per_tensor_symmetric, quant_min=-8, quant_max=7
    )
    weight = torch.tensor([-1.0, 0.3, 1.0])
    observer(weight)
    integers = _quantize_weight(1.5 * weight, observer).int_repr()  # larger than what the observer has seen
    assert integers.tolist() == [-8, 3, 7]


def test_constructors_of_quantized_layers():
    q = torch.quantize_per_tensor(torch.randn(2, 4, 5, 5), 0.05, 128, torch.quint8)
    x, nnq = q.dequantize(), torch.ao.nn.quantized
    layers = [
        (nnq.LayerNorm([4, 5, 5], None, None, 0.1, 100), nn.LayerNorm([4, 5, 5])),
        (nnq.GroupNorm(2, 4, None, None, scale=0.1, zero_point=100), nn.GroupNorm(2, 4)),
        (nnq.InstanceNorm2d(4, None, None, 0.1, 100), nn.InstanceNorm2d(4)),
        (nnq.ELU(0.1, 100, 0.7), nn.ELU(0.7)), (nnq.LeakyReLU(0.1, 100, 0.2), nn.LeakyReLU(0.2)),
        (nnq.Sigmoid(0.1, 100), nn.Sigmoid()), (nnq.Softmax(1, 0.1, 100), nn.Softmax(1)),
        (nnq.BatchNorm2d(4), nn.BatchNorm2d(4).eval()),  # in training mode, and with the running statistics
    ]  # fmt: skip
    for layer, of_floats in layers:
        expected = torch.quantize_per_tensor(of_floats(x).detach(), layer.scale, layer.zero_point, torch.quint8)
        assert (layer(q).int_repr() == expected.int_repr()).all(), layer
    fused = torch.ao.nn.intrinsic.qat.ConvBnReLU2d(
        4, 3, 3, bias=True, eps=1e-3, freeze_bn=True, qconfig=quantization.default_qat_qconfig
    )
    assert fused.bn.eps == 1e-3 and not fused.bn.training and fused(x).shape == (2, 3, 3, 3)


def test_qconfigs_that_a_layer_cannot_have_are_refused():
    qat = torch.ao.nn.qat
    with pytest.raises(AssertionError, match="Embedding Bag weights requires a qscheme"):
        qat.EmbeddingBag(10, 5, qconfig=quantization.default_qat_qconfig)
    layer = nn.Linear(2, 3)
    layer.qconfig = quantization.default_qat_qconfig
    with pytest.raises(ValueError, match="requires a memoryless observer"):
        qat.dynamic.Linear.from_float(layer)


class Inner(nn.Module):
    def __init__(self, layer):
        super().__init__()
        self.layer = layer

    def forward(self, x):
        return self.layer(x)


@pytest.mark.filterwarnings("ignore:Please use quant_min")
def test_a_layer_at_several_places_is_converted_at_all_of_them():
    """PyTorch converts it at the first place in a container, and the others fail or stay floats."""
    layer, x = nn.Linear(8, 8), torch.randn(16, 8)
    model = nn.Sequential(layer, nn.ReLU(), layer, Inner(layer))
    dynamic = quantization.quantize_dynamic(model)
    assert dynamic[0] is dynamic[2] is dynamic[3].layer and (dynamic(x) - model(x)).abs().max() < 0.1
    wrapped = quantization.QuantWrapper(model).eval()
    wrapped.qconfig = quantization.get_default_qconfig("onednn")
    prepared = quantization.prepare(wrapped)
    prepared(x)
    quantized = quantization.convert(prepared)
    assert quantized.module[0] is quantized.module[2] is quantized.module[3].layer
    assert (quantized(x) - wrapped(x)).abs().max() < 0.1
    wrapped.train().qconfig = quantization.get_default_qat_qconfig("onednn")
    trained = quantization.prepare_qat(wrapped)
    assert trained.module[0] is trained.module[3].layer and len(list(trained.parameters())) == 2
    trained(x).sum().backward()
    quantization.convert(trained.eval())(x)


def test_a_recurrent_layer_at_several_places_is_observed_at_all_of_them():
    class Twice(nn.Module):
        def __init__(self):
            super().__init__()
            self.quant, self.dequant = quantization.QuantStub(), quantization.DeQuantStub()
            self.first = self.second = nn.LSTM(8, 8)

        def forward(self, x):
            return self.dequant(self.second(self.first(self.quant(x))[0])[0])

    model, x = Twice().eval(), torch.randn(5, 2, 8)
    model.qconfig = quantization.get_default_qconfig("onednn")
    prepared = quantization.prepare(model)
    prepared(x)
    quantized = quantization.convert(prepared)
    assert quantized.first is quantized.second and (quantized(x) - model(x)).abs().max() < 0.1


X = (torch.ones(2, 8),)


def _forms():
    """Models by form, all of the same layers."""

    def plain():
        return nn.Sequential(nn.Linear(8, 4)).eval()

    prepared, pruned, masked, weight_only = plain(), plain(), plain(), plain()
    prepared.qconfig = quantization.default_qconfig
    nn.utils.prune.identity(pruned[0], "weight")
    nn.utils.parametrizations.weight_norm(masked[0])
    quantization.quantize_(weight_only, quantization.Int8WeightOnlyConfig())
    models = {"float": plain(), "prepared": quantization.prepare(prepared), "pruned": pruned, "parametrized": masked}
    trained = plain().train()
    trained.qconfig = quantization.get_default_qat_qconfig("x86")
    graph = quantization.quantize_fx.prepare_fx(plain(), quantization.QConfigMapping().set_global(prepared.qconfig), X)
    return models | {
        "dynamic": quantization.quantize_dynamic(plain()),
        "weight-only": weight_only,
        "trained": quantization.prepare_qat(trained),
        "graph": graph,
    }


@pytest.mark.parametrize(
    ("checkpoint", "model", "message"),
    [
        ("dynamic", "float", "is of a quantized model: quantize this model in the same way before loading"),
        ("weight-only", "float", "is of a quantized model: quantize this model in the same way before loading"),
        ("weight-only", "dynamic", "0.scale must be a number, got shape .4, 1.: .* quantized in another way"),
        ("float", "weight-only", "0.weight is a float weight, and this layer is quantized: load the checkpoint into"),
        ("prepared", "float", "is of a prepared model: prepare this model in the same way before loading, or save the"),
        (
            "float",
            "prepared",
            "The model is prepared, and the checkpoint is of one that is not: load it into the model",
        ),
        ("trained", "float", "is of a prepared model"),
        ("float", "trained", "The model is prepared"),
        ("graph", "float", "is of a prepared model"),
        ("float", "graph", "The model is prepared"),
        ("pruned", "float", "is of a pruned model: prune this model in the same way before loading, or save after"),
        ("float", "pruned", "The model is pruned, and the checkpoint is of one that is not: load it before pruning"),
        ("parametrized", "float", "is of a parametrized model: register the same parametrizations before loading"),
        ("float", "parametrized", "The model is parametrized, and the checkpoint is of one that is not"),
    ],
)
def test_checkpoints_of_other_forms_say_what_to_do(checkpoint, model, message):
    forms = _forms()
    with pytest.raises(RuntimeError, match=message):
        forms[model].load_state_dict(forms[checkpoint].state_dict())


@pytest.mark.parametrize("name", ["packed", "zero_point", "scale"])
def test_float_layers_with_names_of_quantized_parts_get_no_hint(name):
    model, other = nn.ModuleDict({name: nn.Linear(2, 2)}), nn.ModuleDict({"layer": nn.Linear(2, 2)})
    for one, state in ((model, other.state_dict()), (other, model.state_dict())):
        with pytest.raises(RuntimeError) as caught:
            one.load_state_dict(state)
        assert "quantized" not in str(caught.value)


def _pruned_norm(layer):
    nn.utils.weight_norm(layer)
    return nn.utils.prune.l1_unstructured(layer, "weight_v", amount=0.5)


def _pruned(layer):
    return nn.utils.prune.ln_structured(layer, "weight", amount=0.5, n=2, dim=0)


def _pruned_bias(layer):
    return nn.utils.prune.l1_unstructured(layer, "bias", amount=0.5)


COMPUTED = {
    "pruned": _pruned,
    "pruned bias": _pruned_bias,
    "weight norm": nn.utils.weight_norm,
    "spectral norm": lambda layer: nn.utils.spectral_norm(layer).eval(),
    "pruned weight norm": _pruned_norm,
    "parametrized": nn.utils.parametrizations.weight_norm,
}


@pytest.mark.filterwarnings("ignore:.nn.utils.(weight|spectral)_norm. is deprecated:FutureWarning")
@pytest.mark.parametrize("kind", COMPUTED)
def test_layers_whose_weights_hooks_compute(kind):
    """PyTorch's functions fail for them, or leave a hook that fails at the next call."""
    torch.manual_seed(0)
    layer, x = COMPUTED[kind](nn.Linear(8, 8)), torch.randn(16, 8)
    model = nn.Sequential(layer, nn.ReLU()).eval()
    expected = model(x)
    models = [quantization.quantize_dynamic(model)]
    fused = quantization.QuantWrapper(quantization.fuse_modules(model, ["0", "1"]))
    mapping = quantization.get_default_qconfig_mapping("onednn")
    graph = quantization.prepare_fx(model, mapping, (x,))
    graph(x)
    models.append(quantization.convert_fx(graph))
    for wrapped in (fused, quantization.QuantWrapper(model)):
        wrapped.qconfig = quantization.get_default_qconfig("onednn")
        prepared = quantization.prepare(wrapped)
        prepared(x)
        models.append(quantization.convert(prepared))
        models.append(quantization.convert(prepared, measure=True))
    for config in (quantization.Int8WeightOnlyConfig(), quantization.Int8DynamicActivationInt8WeightConfig()):
        models.append(copy.deepcopy(model))
        quantization.quantize_(models[-1], config)
        assert "Linear(" in repr(models[-1][0]) and "bits=8" in repr(models[-1][0])
    for quantized in models:
        assert (quantized(x) - expected).abs().max() < 0.1
    assert model(x).equal(expected)


@pytest.mark.parametrize("pruned", ["0", "1"])
def test_masks_of_fused_layers_in_training(pruned):
    """That of the convolution goes over to the fused layer; that of the batch norm does not fit it."""
    model, x = nn.Sequential(nn.Conv2d(2, 4, 3), nn.BatchNorm2d(4)).train(), torch.randn(2, 2, 5, 5)
    nn.utils.prune.l1_unstructured(model.get_submodule(pruned), "weight", amount=0.5)
    model.qconfig = quantization.get_default_qat_qconfig("onednn")
    trained = quantization.prepare_qat(quantization.fuse_modules_qat(model, ["0", "1"]))
    assert hasattr(trained[0], "weight_mask") is (pruned == "0")
    if pruned == "0":
        trained(x)
        assert trained[0].weight_mask.sum() == 36 and (trained[0].weight == 0).sum() == 36


@pytest.mark.parametrize("graph", [False, True])
def test_pruned_weights_stay_pruned_in_training(graph):
    torch.manual_seed(0)
    model, x = nn.Sequential(_pruned(nn.Linear(8, 8)), nn.ReLU()).train(), torch.randn(16, 8)
    if graph:
        mapping = quantization.get_default_qat_qconfig_mapping("onednn")
        trained = quantization.prepare_qat_fx(model, mapping, (x,))
    else:
        wrapped = quantization.QuantWrapper(quantization.fuse_modules_qat(model, ["0", "1"]))
        wrapped.qconfig = quantization.get_default_qat_qconfig("onednn")
        trained = quantization.prepare_qat(wrapped)
    optimizer = torch.optim.SGD(trained.parameters(), lr=0.1)
    for _ in range(3):
        optimizer.zero_grad()
        trained(x).square().sum().backward()
        optimizer.step()
    quantized = (quantization.convert_fx if graph else quantization.convert)(trained.eval())
    layer = next(module for module in quantized.modules() if hasattr(module, "set_weight_bias"))
    assert (layer.weight().int_repr() == 0).all(1).sum() == 4
    assert (quantized(x) - trained(x)).abs().max() < 0.1


@pytest.mark.parametrize("kind", ["pruned", "parametrized"])
def test_training_for_a_config_keeps_masks_and_parametrizations(kind):
    config, x = quantization.Int8WeightOnlyConfig(), torch.randn(16, 8)
    model = nn.Sequential(COMPUTED[kind](nn.Linear(8, 8)))
    quantization.quantize_(model, quantization.qat.QATConfig(config, step="prepare"))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model(x).square().sum().backward()
    optimizer.step()
    expected = model(x)
    quantization.quantize_(model, quantization.qat.QATConfig(config, step="convert"))
    assert model[0].bits == 8 and (model(x) - expected).abs().max() < 1e-4
    assert (model[0].dequantize() == 0).float().mean() == (0.5 if kind == "pruned" else 0)


def test_hooks_go_over_to_the_new_layer():
    calls = []
    model = nn.Sequential(nn.Linear(8, 8))
    model[0].register_forward_hook(lambda *_: calls.append("after"))
    model[0].register_forward_pre_hook(lambda *_: calls.append("before"))
    quantization.quantize_(model, quantization.Int8WeightOnlyConfig())
    model(torch.ones(1, 8))
    assert calls == ["before", "after"]


@pytest.mark.parametrize("recipe", ["weight-only", "dynamic", "fused", "static", "graph"])
def test_hooks_that_take_arguments_by_name_go_over(recipe):
    calls = []
    model = nn.Sequential(nn.Linear(8, 8), nn.ReLU()).eval()
    model[0].register_forward_pre_hook(lambda module, args, kwargs: calls.append("before"), with_kwargs=True)
    last = model[1 if recipe in ("fused", "graph") else 0]
    last.register_forward_hook(lambda module, args, kwargs, output: calls.append("after"), with_kwargs=True)
    last.register_forward_hook(lambda *_: calls.append("always"), always_call=True)
    x = torch.ones(1, 8)
    if recipe == "weight-only":
        quantization.quantize_(model, quantization.Int8WeightOnlyConfig())
    elif recipe == "dynamic":
        model = quantization.quantize_dynamic(model)
    elif recipe == "fused":
        model = quantization.fuse_modules(model, ["0", "1"])
    elif recipe == "graph":
        model = quantization.quantize_fx.fuse_fx(model, example_inputs=(x,))
    else:
        model = quantization.QuantWrapper(model)
        model.qconfig = quantization.get_default_qconfig("x86")
        quantization.prepare(model, inplace=True)(x)
        quantization.convert(model, inplace=True)
    calls.clear()
    model(x)
    assert calls == ["before", "after", "always"]


class Equal(nn.Module):
    """A block that is equal to all others of its class."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 8)

    def forward(self, x):
        return self.layer(x)

    def __eq__(self, other):
        return isinstance(other, Equal)

    def __hash__(self):
        return 0


@pytest.mark.parametrize("recipe", ["weight-only", "dynamic", "static", "graph"])
def test_equal_modules_are_not_taken_for_one_another(recipe):
    """As in PyTorch, the eager recipes skip the second one, which stays as it is; graph mode quantizes both."""
    model, x = nn.Sequential(Equal(), nn.ReLU(), Equal()).eval(), torch.randn(4, 8)
    expected = model(x)
    if recipe == "weight-only":
        quantization.quantize_(model, quantization.Int8WeightOnlyConfig())
    elif recipe == "dynamic":
        model = quantization.quantize_dynamic(model)
    elif recipe == "static":
        model = nn.Sequential(quantization.QuantWrapper(model[0]), model[1], model[2])
        model[0].qconfig = quantization.get_default_qconfig("x86")
        quantization.prepare(model, inplace=True)(x)
        quantization.convert(model, inplace=True)
    else:
        prepared = quantization.quantize_fx.prepare_fx(model, quantization.get_default_qconfig_mapping(), (x,))
        prepared(x)
        model = quantization.quantize_fx.convert_fx(prepared)
        assert model.get_submodule("0.layer").scale != model.get_submodule("2.layer").scale
    assert (model(x) - expected).abs().max() < 0.05


def test_user_attributes_that_are_named_as_hooks():
    class WithAttribute(nn.Linear):
        def __init__(self):
            super().__init__(8, 8)
            self.my_hooks = None

    layer = WithAttribute()
    nn.utils.prune.l1_unstructured(layer, "weight", 0.5)
    model = nn.Sequential(layer)
    quantization.quantize_(model, quantization.Int8WeightOnlyConfig())
    assert type(model[0]).__name__ == "WeightOnlyLinear"


def test_subclasses_of_linear():
    class Same(nn.Linear):
        pass

    class Other(nn.Linear):
        def forward(self, x):
            return 2 * super().forward(x)

    model = nn.Sequential(Same(4, 4), Other(4, 4), nn.LazyLinear(4))
    quantization.quantize_(model, quantization.Int8WeightOnlyConfig())
    assert [type(layer).__name__ for layer in model] == ["WeightOnlyLinear", "Other", "LazyLinear"]


def per_channel(x):
    return torch.quantize_per_channel(x, torch.ones(x.shape[1]), torch.zeros(x.shape[1]).long(), 1, torch.quint8)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda q, x: nn.quantized.QFunctional().add(q, x),
            NotImplementedError,
            "both must be quantized, got numod.float",
        ),
        (
            lambda q, x: nn.quantized.QFunctional().add_relu(x, q),
            NotImplementedError,
            "'quantized::add' .* put a Quant",
        ),
        (lambda q, x: nn.quantized.QFunctional().mul(q, 2.0), NotImplementedError, "got float; .* mul_scalar"),
        (
            lambda q, x: nn.quantized.QFunctional().add(q, torch.quantize_per_tensor(x, 0.1, 0, torch.qint8)),
            RuntimeError,
            "Add operands should have same data type, got numod.quint8 and numod.qint8",
        ),
        (
            lambda q, x: nn.quantized.QFunctional().matmul(q, x.T),
            RuntimeError,
            "MatMul operands should have same data type. All must be quantized, got numod.quint8, numod.float32",
        ),
        (lambda q, x: nn.quantized.QFunctional().cat([x, q]), RuntimeError, "All dtypes must be the same"),
        (
            lambda q, x: nn.quantized.Linear(3, 1)(per_channel(x)),
            RuntimeError,
            "quantized::linear: expected an input with",
        ),
        (
            lambda q, x: nn.quantized.Conv1d(2, 1, 1)(per_channel(x[None])),
            RuntimeError,
            "with one scale, but its scheme",
        ),
        (lambda q, x: x.__setitem__(0, q[0]), RuntimeError, "Copying from quantized Tensor to non-quantized Tensor"),
        (lambda q, x: x.index_put_((torch.tensor([0]),), q[:1]), NotImplementedError, "index_put_.*dequantize"),
        (lambda q, x: x.masked_fill_(x > 0, q[0, 0]), NotImplementedError, "masked_fill.*dequantize"),
        (lambda q, x: x.copy_(q), RuntimeError, "Copying from quantized Tensor to non-quantized Tensor is not allowed"),
        (
            lambda q, x: torch.quantize_per_tensor(x, 0.1, 0.5, torch.quint8),
            TypeError,
            "'zero_point' must be int, not f",
        ),
        (lambda q, x: torch.quantize_per_tensor(x, "a", 0, torch.quint8), TypeError, "'scale' must be float, not str"),
        (
            lambda q, x: torch.quantize_per_channel(x, torch.ones(2), torch.zeros(2), "0", torch.qint8),
            TypeError,
            "'axis' must be int, not str",
        ),
    ],
)
def test_mixed_operands_are_refused(call, error, message):
    x = torch.ones(2, 3)
    with pytest.raises(error, match=message):
        call(torch.quantize_per_tensor(x, 0.1, 0, torch.quint8), x)


def test_a_quantized_number_fills_floats():
    q = torch.quantize_per_tensor(torch.tensor([1.0, 2.0]), 0.5, 1, torch.quint8)
    assert torch.zeros(2).fill_(q[1]).tolist() == [2.0, 2.0]


def test_a_qconfig_is_no_text():
    model = nn.Sequential(nn.Linear(4, 4)).eval()
    model.qconfig = "x86"
    with pytest.raises(AttributeError, match="must be a QConfig, such as get_default_qconfig.'x86'., got 'x86'"):
        quantization.prepare(model)


def test_a_quantized_recurrent_state_does_not_load_into_floats():
    model = nn.Sequential(nn.LSTM(4, 4))
    with pytest.raises(RuntimeError, match="Copying from quantized Tensor to non-quantized"):
        model.load_state_dict(quantization.quantize_dynamic(model).state_dict())


@pytest.mark.parametrize(
    "kinds", [(nn.Conv2d, nn.BatchNorm2d), (nn.Conv1d, nn.BatchNorm1d), (nn.Linear, nn.BatchNorm1d)]
)
def test_batch_norms_with_zero_weights_train(kinds):
    """As residual blocks begin. PyTorch's results are NaN."""
    layer, norm = kinds
    sizes = (4, 2, *[3] * {nn.Conv2d: 2, nn.Conv1d: 1, nn.Linear: 0}[layer])
    model, x = nn.Sequential(layer(2, 3, *[1] * (layer is not nn.Linear)), norm(3)).train(), torch.randn(*sizes)
    with torch.no_grad():
        model[1].weight[1], model[1].bias[1] = 0.0, 0.5
    model.qconfig = quantization.get_default_qat_qconfig("onednn")
    prepared = quantization.prepare_qat(quantization.fuse_modules_qat(model, [["0", "1"]]))
    plain = copy.deepcopy(prepared).apply(quantization.disable_fake_quant)
    result = prepared(x)
    assert ((result[:, 1] - 0.5).abs() < 0.02).all() and result.isfinite().all()
    weights = torch.randn_like(result)
    for network in (plain, model):
        (network(x) * weights).sum().backward()
    for ours, expected in ((plain[0].bn.weight, model[1].weight), (plain[0].weight, model[0].weight)):
        assert torch.allclose(ours.grad, expected.grad, atol=1e-4)
    prepared(x).square().mean().backward()
    assert all(parameter.grad.isfinite().all() for parameter in prepared.parameters())
    quantized = quantization.convert(prepared.eval())
    weight = quantized[0].weight().dequantize()
    assert (weight[1] == 0).all() and weight.isfinite().all()
