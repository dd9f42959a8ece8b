"""Public names of PyTorch's quantization: they exist, take the same values, and say what to do where they refuse."""

from importlib import import_module

import pytest

import numod

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.parity, pytest.mark.filterwarnings("ignore")]
BACKENDS = "native fbgemm qnnpack x86 onednn executorch".split()


@pytest.mark.parametrize(
    "name",
    [
        "ao.quantization",
        "ao.quantization.fake_quantize",
        "ao.nn.quantized",
        "ao.nn.intrinsic",
        "ao.nn.intrinsic.quantized",
        "ao.nn.quantized.reference",
        "ao.nn.quantized.dynamic",
        "ao.nn.qat",
        "ao.nn.quantizable",
    ],
)
def test_public_names(name):
    theirs, ours = (import_module(f"{lib}.{name}") for lib in ("torch", "numod"))
    names = getattr(theirs, "__all__", [public for public in dir(theirs) if public[0].isupper()])
    assert [public for public in names if not hasattr(ours, public)] == []


def text(config):
    return str(config).replace("numod.", "torch.").replace("None", "")


@pytest.mark.parametrize("backend", BACKENDS)
def test_dtypes_of_backends(backend):
    theirs, ours = (import_module(f"{lib}.ao.quantization.backend_config.{backend}") for lib in ("torch", "numod"))
    names = [name for name in dir(theirs) if type(getattr(theirs, name)).__name__.startswith("DType")]
    assert len(names) > 3
    for name in names:
        config = getattr(theirs, name)
        if hasattr(config, "to_dict"):
            expected = {key: text(value) for key, value in config.to_dict().items()}
            assert {key: text(value) for key, value in getattr(ours, name).to_dict().items()} == expected
        else:
            assert text(getattr(ours, name)) == text(config)


def test_operators_of_functions():
    mapping = numod.ao.quantization.get_default_float_to_quantized_operator_mappings()
    theirs = torch.ao.quantization.get_default_float_to_quantized_operator_mappings()
    assert {function.__name__ for function in mapping} == {function.__name__ for function in theirs}
    for lib in (torch, numod):
        with pytest.raises(AssertionError, match="does not have corresponding quantized op"):
            lib.ao.quantization.get_quantized_operator(lib.nn.functional.linear)


def test_reference_layers_of_backends():
    utils = import_module("numod.ao.quantization.backend_config.utils")
    config = numod.ao.quantization.backend_config.get_native_backend_config()
    mapping = utils.get_root_module_to_quantized_reference_module(config)
    assert mapping[numod.nn.Linear] is numod.nn.quantized.reference.Linear
    assert numod.ao.nn.qat.Conv2d in utils.get_qat_module_classes(config)
    pattern = numod.ao.quantization.backend_config.BackendPatternConfig(numod.nn.Linear)
    assert "Linear" in utils.entry_to_pretty_str(pattern)
    assert utils.pattern_to_human_readable((numod.nn.ReLU, "add"))[1] == "add"
    assert numod.nn.Linear in utils.get_pattern_to_dtype_configs(config)


def test_fusers_of_patterns():
    nn, find = numod.nn, numod.ao.quantization.get_fuser_method_new
    anything = import_module("numod.ao.quantization.utils").MatchAllNode
    assert find((nn.Conv2d, nn.ReLU), {(nn.Conv2d, anything): 1}) == 1
    with pytest.raises(AssertionError, match="did not find fuser method"):
        find((nn.Conv2d, nn.ReLU), {(nn.Conv2d, nn.BatchNorm2d): 1})


def test_sizes_of_blocks():
    for lib in (torch, numod):
        q = lib.ao.quantization
        kinds = q.PerTensor(), q.PerAxis(1), q.PerGroup(2), q.PerRow(), q.PerToken()
        assert [tuple(q.get_block_size((4, 6), kind)) for kind in kinds] == [(4, 6), (4, 1), (1, 2), (1, 6), (1, 6)]


@pytest.mark.parametrize(
    ("path", "name", "instead"),
    [
        ("ao.ns._numeric_suite_fx", "prepare_n_shadows_model", "add_shadow_loggers"),
        ("ao.quantization.quantize_pt2e", "prepare_pt2e", "prepare_fx"),
        ("ao.quantization.backend_config.tensorrt", "get_tensorrt_backend_config", "get_native_backend_config"),
        ("ao.nn.sparse.quantized", "Linear", "sparsity"),
        ("ao.quantization", "get_default_static_sparse_quant_module_mappings", "sparsity"),
        ("ao.quantization", "script_qconfig", "prepare_fx"),
    ],
)
def test_what_is_not_there_says_what_to_use(path, name, instead):
    with pytest.raises(NotImplementedError, match=instead):
        getattr(import_module(f"numod.{path}"), name)()


OTHER_TEXTS = {"default_dynamic_fake_quant", "default_embedding_fake_quant_4bit"}  # another order, or more arguments
RECIPES = [
    name for name in torch.ao.quantization.__all__ if name.startswith("default_") and name not in OTHER_TEXTS
    and not name.startswith(("default_eval", "default_embedding_qat_qconfig_4bit", "default_dynamic_qat"))
]  # fmt: skip


@pytest.mark.parametrize(
    "name", [*RECIPES, *(("get_default_qconfig", backend) for backend in ("x86", "qnnpack"))], ids=str
)
def test_texts_of_recipes(name):
    texts = []
    for lib in (torch, numod):
        public = getattr(lib.ao.quantization, name if isinstance(name, str) else name[0])
        texts.append(repr(public if isinstance(name, str) else public(name[1])).replace("numod.", "torch."))
    assert texts[0] == texts[1]
