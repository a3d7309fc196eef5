"""Networks as scikit-learn estimators: for pipelines, grid searches and everything else that takes one.

Parameters have the names, defaults and meanings of ``sklearn.neural_network``, so the import is all that changes:

>>> from openbnns.sklearn import MLPClassifier
>>> from sklearn.datasets import load_digits
>>> from sklearn.pipeline import make_pipeline
>>> from sklearn.preprocessing import StandardScaler
>>> x, y = load_digits(return_X_y=True)
>>> model = make_pipeline(StandardScaler(), MLPClassifier(learning_rate_init=0.01, max_iter=15, tol=0, random_state=0))
>>> model.fit(x[:1500], y[:1500]).score(x[1500:], y[1500:]) > 0.9
True
"""

from importlib.util import find_spec as _find_spec

if _find_spec("sklearn") is None:
    raise ImportError('openbnns.sklearn needs scikit-learn. Run: pip install "openbnns[sklearn]"')

from .mlp import MLPClassifier, MLPRegressor

__all__ = ["MLPClassifier", "MLPRegressor"]


def __getattr__(name: str) -> object:
    """Say where a name is that is not here."""
    from .._elsewhere import NAMES

    hint = f" {NAMES[name]}" if name in NAMES else ""
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}.{hint}")
