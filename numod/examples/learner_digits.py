"""Train a network on 8x8 digits with a Learner: 99 % of the held-out digits in a few seconds.

python numod/examples/learner_digits.py
"""

import sys

import numod as torch
from numod import nn
from numod.datasets import Digits
from numod.learner import (
    ClassificationInterpretation,
    DataLoaders,
    EarlyStoppingCallback,
    Learner,
    accuracy,
    minimum,
)


def block(inputs: int, outputs: int, stride: int) -> nn.Sequential:
    convolution = nn.Conv2d(inputs, outputs, kernel_size=3, stride=stride, padding=1, bias=False)
    return nn.Sequential(convolution, nn.BatchNorm2d(outputs), nn.ReLU())


def main(seed: int = 0) -> float:
    torch.manual_seed(seed)
    dls = DataLoaders.from_dsets(Digits(train=True), Digits(train=False), bs=64)
    layers = block(1, 32, 1), block(32, 32, 2), block(32, 64, 2), nn.Flatten(), nn.Dropout(0.2), nn.Linear(256, 10)
    learn = Learner(dls, nn.Sequential(*layers), metrics=accuracy)
    rate = learn.lr_find(suggest_funcs=minimum).minimum
    learn.fit_one_cycle(15, rate, cbs=EarlyStoppingCallback("accuracy", patience=6))
    print(ClassificationInterpretation.from_learner(learn).confusion_matrix())
    if len(sys.argv) > 1:
        learn.report(sys.argv[1])
    return learn.recorder.column("accuracy")[-1]


if __name__ == "__main__":
    print(f"accuracy on held-out digits: {main():.1%}")
