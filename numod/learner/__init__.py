"""A training loop: `Learner`, `DataLoaders`, callbacks, metrics and plots, with fastai's names.

**How it works.** `loop` is the loop with its events, `learner` the Learner around it. All else is a callback (`events`,
held by `callbacks`) in a file of its own: `recorder`, `progress`, `schedule`, `tracker`, `training` (what changes a
step), `blending`, `checkpoint`, `activation_stats`, `preds`, `csv_logger`, `distributed`. `compiled` makes a batch's
work one compiled function. `metrics`, `agreement`, `interpret`, `plots` and `report` look at the results; `saving` and
`randomness` are what files hold.
"""

from __future__ import annotations

from .activation_stats import ActivationStats
from .agreement import BalancedAccuracy, CohenKappa, Dice, Jaccard, JaccardCoeff, MatthewsCorrCoef
from .blending import CutMix, MixUp
from .checkpoint import Checkpoint
from .csv_logger import CSVLogger
from .dataloaders import DataLoaders
from .distributed import DistributedTrainer, num_distrib, rank0_first, rank_distrib
from .events import (
    EVENTS,
    Callback,
    CancelBackwardException,
    CancelBatchException,
    CancelEpochException,
    CancelFitException,
    CancelStepException,
    CancelTrainException,
    CancelValidException,
    TrainEvalCallback,
)
from .interpret import ClassificationInterpretation, Interpretation
from .learner import Learner
from .metrics import (
    AvgLoss,
    AvgMetric,
    ConfusionMatrix,
    F1Score,
    FBeta,
    Metric,
    Perplexity,
    Precision,
    R2Score,
    Recall,
    RocAuc,
    RocAucBinary,
    ValueMetric,
    accuracy,
    accuracy_multi,
    error_rate,
    mae,
    mse,
    perplexity,
    rmse,
    top_k_accuracy,
)
from .preds import GatherPreds, GatherPredsCallback
from .progress import ProgressCallback
from .recorder import Recorder
from .saving import load_learner
from .schedule import (
    LRFinder,
    ParamScheduler,
    SchedCos,
    SchedExp,
    SchedLin,
    SchedNo,
    SchedPoly,
    combine_scheds,
    combined_cos,
    minimum,
    slide,
    steep,
    valley,
)
from .tracker import (
    EarlyStoppingCallback,
    ReduceLROnPlateau,
    SaveModelCallback,
    TerminateOnNaNCallback,
    TrackerCallback,
)
from .training import (
    EMA,
    SWA,
    BnFreeze,
    GradientAccumulation,
    GradientClip,
    MixedPrecision,
    ShortEpochCallback,
)

__all__ = [
    "ActivationStats", "AvgLoss", "AvgMetric", "BalancedAccuracy", "BnFreeze", "CSVLogger", "Callback",
    "CancelBackwardException", "CancelBatchException", "CancelEpochException", "CancelFitException",
    "CancelStepException", "CancelTrainException", "CancelValidException", "Checkpoint",
    "ClassificationInterpretation", "CohenKappa", "ConfusionMatrix", "CutMix", "DataLoaders", "Dice",
    "DistributedTrainer", "EMA", "EVENTS", "EarlyStoppingCallback", "F1Score", "FBeta", "GatherPreds",
    "GatherPredsCallback", "GradientAccumulation", "GradientClip", "Interpretation", "Jaccard",
    "JaccardCoeff", "LRFinder", "Learner", "MatthewsCorrCoef", "Metric", "MixUp", "MixedPrecision",
    "ParamScheduler", "Perplexity", "Precision", "ProgressCallback", "R2Score", "Recall", "Recorder",
    "ReduceLROnPlateau", "RocAuc", "RocAucBinary", "SWA", "SaveModelCallback", "SchedCos", "SchedExp",
    "SchedLin", "SchedNo", "SchedPoly", "ShortEpochCallback", "TerminateOnNaNCallback", "TrackerCallback",
    "TrainEvalCallback", "ValueMetric", "accuracy", "accuracy_multi", "combine_scheds", "combined_cos",
    "error_rate", "load_learner", "mae", "minimum", "mse", "num_distrib", "perplexity", "rank0_first",
    "rank_distrib", "rmse", "slide", "steep", "top_k_accuracy", "valley",
]  # fmt: skip
