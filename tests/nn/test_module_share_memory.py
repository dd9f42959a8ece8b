"""share_memory: what a forked process writes, its parent sees."""

import multiprocessing

import numpy as np
import pytest

import numod
from numod import nn


def train(net):
    with numod.no_grad():
        net.weight.fill_(7.0)
        net.mean.add_(1.0)


def module():
    net = nn.Linear(2, 2)
    net.register_buffer("mean", numod.zeros(2))
    return net


@pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="processes are not forked here")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forked_process_trains_the_parents_module():
    net, unshared = module().share_memory(), module()
    train(unshared)  # so that the child builds no kernel
    process = multiprocessing.get_context("fork").Process(target=train, args=(net,))
    process.start()
    process.join()
    assert process.exitcode == 0 and net.weight.tolist() == [[7.0, 7.0], [7.0, 7.0]] and net.mean.tolist() == [1.0, 1.0]


def test_values_identity_views_and_gradients_stay():
    net = module()
    weight, values, view = net.weight, net.weight.tolist(), net.weight[0]
    net.weight.sum().backward()
    assert net.share_memory() is net and net.weight is weight and weight.tolist() == values
    assert weight.is_shared() and weight.grad.is_shared() and view.is_shared() and not numod.ones(1).is_shared()
    pages = weight.data_ptr()
    assert net.share_memory().weight.data_ptr() == pages
    with numod.no_grad():
        weight.zero_()
    assert view.tolist() == [0.0, 0.0]
    assert numod.empty(0).share_memory_().is_shared() and np.asarray(
        numod.ones(2, dtype=numod.bfloat16).share_memory_().float()
    ).tolist() == [1, 1]
