"""state_dict and load_state_dict: keys, sharing, strictness, assignment, metadata, extra state and hooks."""

import copy
from collections import OrderedDict

import pytest

import numod
from numod import nn


class Net(nn.Module):
    _version = 3

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(2, 2)
        self.scale = nn.Parameter(numod.ones(2))
        self.register_buffer("mean", numod.zeros(2))
        self.register_buffer("cache", numod.zeros(2), persistent=False)
        self.register_buffer("nothing", None)


KEYS = ["scale", "mean", "layer.weight", "layer.bias"]


def tied():
    net = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    net[1].weight = net[0].weight
    return net


# ---- out


def test_keys_order_and_type():
    state = Net().state_dict()
    assert type(state) is OrderedDict and list(state) == KEYS
    assert state._metadata == {"": {"version": 3}, "layer": {"version": 1}}


def test_values_share_memory_and_are_detached_unless_keep_vars():
    net = Net()
    state = net.state_dict()
    assert not state["scale"].requires_grad and type(state["scale"]) is numod.Tensor
    with numod.no_grad():
        net.scale.fill_(5)
    assert state["scale"].tolist() == [5, 5]
    live_state = net.state_dict(keep_vars=True)
    assert live_state["scale"] is net.scale and live_state["mean"] is net.mean


def test_prefix_and_destination():
    net, destination = Net(), OrderedDict(other=1)
    assert net.state_dict(destination=destination, prefix="net.") is destination
    assert list(destination) == ["other", *("net." + key for key in KEYS)]
    with pytest.warns(FutureWarning, match="Positional args are being deprecated"):
        assert list(Net().state_dict(OrderedDict(), "a.", False)) == ["a." + key for key in KEYS]
    state = Net().state_dict(prefix="net.")
    assert state._metadata == {"net": {"version": 3}, "net.layer": {"version": 1}}


def test_shared_parameters_are_saved_under_each_name():
    assert list(tied().state_dict()) == ["0.weight", "0.bias", "1.weight", "1.bias"]


# ---- in


def test_round_trip():
    net, other = Net(), Net()
    net.mean.fill_(7)
    parameter = other.scale
    result = other.load_state_dict(net.state_dict())
    assert repr(result) == str(result) == "<All keys matched successfully>"
    assert other.layer.weight.tolist() == net.layer.weight.tolist() and other.mean.tolist() == [7, 7]
    assert other.scale is parameter and other.scale.requires_grad


def test_all_mismatches_in_one_error():
    state = Net().state_dict()
    del state["mean"]
    state["extra"] = state["layer.deep.extra"] = state["other.weight"] = numod.ones(1)
    state["scale"] = numod.ones(3)
    state["layer.bias"] = [1, 2]
    with pytest.raises(RuntimeError) as caught:
        Net().load_state_dict(state)
    first, missing, unexpected, size, kind = str(caught.value).split("\n\t")
    assert first == "Error(s) in loading state_dict for Net:"
    assert missing == 'Missing key(s) in state_dict: "mean". '
    assert unexpected == 'Unexpected key(s) in state_dict: "extra", "other.weight", "layer.deep.extra". '
    assert size.startswith("size mismatch for scale: copying a param with shape ") and "[3]" in size and "[2]" in size
    assert kind.startswith(
        'While copying the parameter named "layer.bias", expected a Tensor from checkpoint but received'
    )


def test_not_strict_returns_what_did_not_match():
    net = Net()
    result = net.load_state_dict({"scale": numod.zeros(2), "extra": numod.ones(1)}, strict=False)
    assert result.missing_keys == ["mean", "layer.weight", "layer.bias"] and result.unexpected_keys == ["extra"]
    assert repr(result).endswith(
        "IncompatibleKeys(missing_keys=['mean', 'layer.weight', 'layer.bias'], unexpected_keys=['extra'])"
    )
    assert net.scale.tolist() == [0, 0]
    with pytest.raises(RuntimeError, match="size mismatch"):
        net.load_state_dict({"scale": numod.zeros(3)}, strict=False)


def test_a_name_that_begins_like_a_child_is_not_the_childs():
    net = nn.ModuleDict({"a": nn.Linear(1, 1), "ab": nn.Linear(1, 1)})
    with pytest.raises(RuntimeError, match=r'Unexpected key\(s\) in state_dict: "abc.weight", "a.weight.x"'):
        net.load_state_dict({**net.state_dict(), "abc.weight": numod.ones(1), "a.weight.x": numod.ones(1)})


def test_not_a_mapping():
    with pytest.raises(TypeError, match="Expected state_dict to be dict-like, got <class 'list'>"):
        Net().load_state_dict([("scale", 1)])


def test_scalars_of_one_element_and_other_dtypes():
    module = nn.Module()
    module.count = nn.Buffer(numod.tensor(0.0))
    module.load_state_dict({"count": numod.tensor([4], dtype=numod.int64)})
    assert module.count.shape == () and module.count.item() == 4 and module.count.dtype == numod.float32


def test_frozen_parameters_are_loaded_and_stay_frozen():
    net = Net().requires_grad_(False)
    net.load_state_dict({**net.state_dict(), "scale": numod.zeros(2)})
    assert net.scale.tolist() == [0, 0] and not net.scale.requires_grad


def test_the_given_dictionary_is_not_changed():
    net, state = Net(), Net().state_dict()
    keys, metadata = list(state), copy.deepcopy(state._metadata)
    net.register_load_state_dict_pre_hook(lambda module, state_dict, *rest: state_dict.pop("scale"))
    net.load_state_dict(state, strict=False)
    assert list(state) == keys and state._metadata == metadata


# ---- assign


def test_assign_takes_the_tensors_themselves():
    net, state = Net(), {key: value.clone() for key, value in Net().double().state_dict().items()}
    net.scale.requires_grad_(False)
    net.load_state_dict(state, assign=True)
    assert net.mean is state["mean"] and net.layer.weight.dtype == numod.float64
    assert isinstance(net.layer.weight, nn.Parameter) and net.layer.weight.requires_grad and not net.scale.requires_grad
    with numod.no_grad():
        net.layer.weight.zero_()
    assert state["layer.weight"].tolist() == [[0, 0], [0, 0]]
    parameter = nn.Parameter(numod.ones(2))
    net.load_state_dict({**state, "scale": parameter}, assign=True)
    assert net.scale is parameter


def test_assign_keeps_tied_parameters_tied():
    """Better than PyTorch, which breaks the tie."""
    net, source = tied(), tied()
    net.load_state_dict(source.state_dict(), assign=True)
    assert net[0].weight is net[1].weight and net[0].weight.tolist() == source[0].weight.tolist()
    assert net[0].bias is not net[1].bias

    net[0].register_buffer("running", numod.zeros(1))
    net[1].running = nn.Buffer(net[0].running)
    net[1]._buffers["running"] = net[0].running
    state = {key: value.clone() for key, value in net.state_dict().items()}
    net.load_state_dict(state, assign=True)
    assert net[0].running is net[1].running is state["1.running"]


def test_assign_to_a_tie_with_two_values_takes_the_last_as_copying_does():
    copied, assigned, state = tied(), tied(), tied().state_dict()
    state["1.weight"] = numod.full((2, 2), 9.0)
    copied.load_state_dict(state)
    assigned.load_state_dict(state, assign=True)
    assert (
        copied[0].weight.tolist() == assigned[0].weight.tolist() == [[9, 9], [9, 9]]
        and assigned[0].weight is assigned[1].weight
    )


def test_assign_never_writes_to_the_callers_metadata():
    """Better than PyTorch, whose mark survives into the next save."""
    state = Net().state_dict()
    metadata = copy.deepcopy(state._metadata)
    Net().load_state_dict(state, assign=True)
    assert state._metadata == metadata


# ---- what subclasses and hooks may do


class Stateful(nn.Module):
    def __init__(self):
        super().__init__()
        self.notes = []

    def get_extra_state(self):
        return {"notes": self.notes}

    def set_extra_state(self, state):
        self.notes = state["notes"]


def test_extra_state():
    net, other = nn.Sequential(Stateful()), nn.Sequential(Stateful())
    net[0].notes = ["a"]
    state = net.state_dict()
    assert list(state) == ["0._extra_state"]
    other.load_state_dict(state)
    assert other[0].notes == ["a"]
    with pytest.raises(RuntimeError, match='Missing key.*"0._extra_state"'):
        net.load_state_dict({})
    with pytest.raises(RuntimeError, match='Unexpected key.*"_extra_state"'):
        Net().load_state_dict({**Net().state_dict(), "_extra_state": 1})


def test_extra_state_needs_both_methods():
    class Half(nn.Module):
        def get_extra_state(self):
            return 1

    class OtherHalf(nn.Module):
        def set_extra_state(self, state):
            raise AssertionError

    with pytest.raises(RuntimeError, match="Unexpected key"):
        Half().load_state_dict(Half().state_dict())
    with pytest.raises(RuntimeError, match="Missing key"):
        OtherHalf().load_state_dict({})
    with pytest.raises(RuntimeError, match="Half defines get_extra_state but not set_extra_state"):
        Half().set_extra_state(1)


def test_a_whole_checkpoint_and_a_wrapped_modules_keys_are_recognised():
    net = nn.Linear(1, 1)
    with pytest.raises(RuntimeError, match=r"load state_dict\['model'\]"):
        net.load_state_dict({"epoch": 3, "model": net.state_dict()})
    with pytest.raises(RuntimeError, match="Its keys begin with 'module.'"):
        net.load_state_dict(nn.ModuleDict({"module": net}).state_dict())


def test_save_and_load_may_be_overridden():
    class Renamed(nn.Linear):
        def _save_to_state_dict(self, destination, prefix, keep_vars):
            super()._save_to_state_dict(destination, prefix, keep_vars)
            destination[prefix + "kernel"] = destination.pop(prefix + "weight")

        def _load_from_state_dict(
            self, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs
        ):
            assert local_metadata["version"] == 1
            state_dict[prefix + "weight"] = state_dict.pop(prefix + "kernel")
            super()._load_from_state_dict(
                state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs
            )

    net, other = nn.Sequential(Renamed(1, 1)), nn.Sequential(Renamed(1, 1))
    state = net.state_dict()
    assert list(state) == ["0.bias", "0.kernel"]
    other.load_state_dict(state)
    assert other[0].weight.tolist() == net[0].weight.tolist() and list(state) == ["0.bias", "0.kernel"]


def test_state_dict_hooks():
    net, seen = Net(), []
    net.layer.register_state_dict_pre_hook(lambda module, prefix, keep_vars: seen.append((module, prefix, keep_vars)))

    def rename(module, state_dict, prefix, local_metadata):
        seen.append((module, prefix, local_metadata))
        state_dict[prefix + "kernel"] = state_dict.pop(prefix + "weight")

    net.layer.register_state_dict_post_hook(rename)
    assert list(net.state_dict(keep_vars=True)) == ["scale", "mean", "layer.bias", "layer.kernel"]
    assert seen == [(net.layer, "layer.", True), (net.layer, "layer.", {"version": 1})]


def test_a_public_state_dict_hook_must_return_none_and_a_private_one_may_replace():
    net = nn.Linear(1, 1)
    with net.register_state_dict_post_hook(lambda *args: {}):
        with pytest.raises(RuntimeError, match="state_dict post-hook must return None"):
            net.state_dict()
    net._register_state_dict_hook(lambda module, state_dict, prefix, local_metadata: {"only": 1})
    assert net.state_dict() == {"only": 1}


def test_load_hooks():
    net, seen = Net(), []

    def add(module, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs):
        seen.append((module, prefix, strict))
        state_dict[prefix + "weight"] = state_dict.pop(prefix + "kernel")

    def forgive(module, incompatible_keys):
        seen.append((module, list(incompatible_keys.missing_keys)))
        incompatible_keys.missing_keys.clear()

    net.layer.register_load_state_dict_pre_hook(add)
    net.layer._register_load_state_dict_pre_hook(lambda state_dict, *rest: seen.append(sorted(state_dict)))
    net.register_load_state_dict_post_hook(forgive)
    state = {"scale": numod.ones(2), "layer.kernel": numod.zeros(2, 2), "layer.bias": numod.zeros(2)}
    assert repr(net.load_state_dict(state)) == "<All keys matched successfully>"
    assert seen == [(net.layer, "layer.", True), ["layer.bias", "layer.weight"], (net, ["mean"])]
    net.register_load_state_dict_post_hook(lambda module, keys: keys)
    with pytest.raises(AssertionError, match="not expected to return new values"):
        net.load_state_dict(state)


given_modules = []


def note_module(module, *rest):
    given_modules.append(module)


def test_load_hooks_of_a_copy_are_given_the_copy():
    net = nn.Linear(1, 1)
    net.register_load_state_dict_pre_hook(note_module)
    other = copy.deepcopy(net)
    other.load_state_dict(net.state_dict())
    assert given_modules == [other]


def test_errors_while_copying_are_listed():
    class Stubborn(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(1, 1)
            self.layer.weight.copy_ = self.refuse

        @staticmethod
        def refuse(value):
            raise ValueError("not now")

    with pytest.raises(
        RuntimeError,
        match="While copying the parameter named \"layer.weight\".*an exception occurred : \\('not now',\\)",
    ):
        Stubborn().load_state_dict(Stubborn().state_dict())
