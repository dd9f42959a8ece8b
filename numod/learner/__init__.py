"""A training loop: `Learner`, `DataLoaders`, callbacks, metrics and plots, with fastai's names.

**How it works.** `loop` is the loop with its events, `learner` the Learner around it. All else is a callback (`events`,
held by `callbacks`) in a file of its own: `recorder`, `progress`, `schedule`, `tracker`, `training` (what changes a
step), `blending`, `checkpoint`, `activation_stats`, `preds`, `csv_logger`, `distributed`. `compiled` makes a batch's
work one compiled function. `metrics`, `agreement`, `multilabel`, `scores`, `interpret`, `plots` and `report` look at
the results; `saving` and `randomness` are what files hold.
"""

from __future__ import annotations

from .activation_stats import ActivationStats
from .agreement import (
    BalancedAccuracy,
    CohenKappa,
    Dice,
    HammingLoss,
    Jaccard,
    JaccardCoeff,
    MatthewsCorrCoef,
)
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
    Recall,
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
from .multilabel import (
    F1ScoreMulti,
    FBetaMulti,
    HammingLossMulti,
    JaccardMulti,
    PrecisionMulti,
    RecallMulti,
)
from .preds import GatherPreds, GatherPredsCallback
from .progress import ProgressCallback, ShowGraphCallback
from .recorder import Recorder
from .saving import load_learner
from .schedule import (
    LRFinder,
    OptimScheduler,
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
from .scores import (
    AccumMetric,
    APScore,
    APScoreBinary,
    APScoreMulti,
    BrierScore,
    ExplainedVariance,
    PearsonCorrCoef,
    R2Score,
    RocAuc,
    RocAucBinary,
    RocAucMulti,
    SpearmanCorrCoef,
    skm_to_fastai,
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
    "APScore", "APScoreBinary", "APScoreMulti", "AccumMetric", "ActivationStats", "AvgLoss", "AvgMetric",
    "BalancedAccuracy", "BnFreeze", "BrierScore", "CSVLogger", "Callback", "CancelBackwardException",
    "CancelBatchException", "CancelEpochException", "CancelFitException", "CancelStepException",
    "CancelTrainException", "CancelValidException", "Checkpoint", "ClassificationInterpretation", "CohenKappa",
    "ConfusionMatrix", "CutMix", "DataLoaders", "Dice", "DistributedTrainer", "EMA", "EVENTS",
    "EarlyStoppingCallback", "ExplainedVariance", "F1Score", "F1ScoreMulti", "FBeta", "FBetaMulti",
    "GatherPreds", "GatherPredsCallback", "GradientAccumulation", "GradientClip", "HammingLoss",
    "HammingLossMulti", "Interpretation", "Jaccard", "JaccardCoeff", "JaccardMulti", "LRFinder", "Learner",
    "MatthewsCorrCoef", "Metric", "MixUp", "MixedPrecision", "OptimScheduler", "ParamScheduler",
    "PearsonCorrCoef", "Perplexity", "Precision", "PrecisionMulti", "ProgressCallback", "R2Score", "Recall",
    "RecallMulti", "Recorder", "ReduceLROnPlateau", "RocAuc", "RocAucBinary", "RocAucMulti", "SWA",
    "SaveModelCallback", "SchedCos", "SchedExp", "SchedLin", "SchedNo", "SchedPoly", "ShortEpochCallback",
    "ShowGraphCallback", "SpearmanCorrCoef", "TerminateOnNaNCallback", "TrackerCallback", "TrainEvalCallback",
    "ValueMetric", "accuracy", "accuracy_multi", "combine_scheds", "combined_cos", "error_rate", "load_learner",
    "mae", "minimum", "mse", "num_distrib", "perplexity", "rank0_first", "rank_distrib", "rmse",
    "skm_to_fastai", "slide", "steep", "top_k_accuracy", "valley",
]  # fmt: skip
