"""A network in a pipeline of scikit-learn, with mixed columns and a search for the best settings: python sklearn_pipeline.py

Needs pip install "openbnns[sklearn]".
"""

import numpy as np
from sklearn.compose import make_column_transformer
from sklearn.metrics import classification_report
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from openbnns.sklearn import MLPClassifier


def flowers(count: int = 800) -> tuple[np.ndarray, np.ndarray]:
    """Length, width and colour, and the kind to be told from them."""
    rng = np.random.default_rng(0)
    kind = rng.integers(0, 3, count)
    sizes = np.array([[5, 2], [6, 1.5], [5.5, 3]])[kind] + rng.normal(0, 0.5, (count, 2))
    colour = np.where(rng.random(count) < 0.7, np.array(["white", "blue", "red"])[kind], "white")
    return np.column_stack([sizes.astype(object), colour]), np.array(["iris", "lily", "rose"])[kind]


def main() -> float:
    x, y = flowers()
    train_x, test_x, train_y, test_y = train_test_split(x, y, random_state=0, stratify=y)
    model = make_pipeline(
        make_column_transformer((StandardScaler(), [0, 1]), (OneHotEncoder(), [2])),
        MLPClassifier(early_stopping=True, random_state=0),
    )
    settings = {
        "mlpclassifier__hidden_layer_sizes": [(16,), (32, 32)],
        "mlpclassifier__learning_rate_init": [0.003, 0.03],
    }
    search = GridSearchCV(model, settings, cv=3).fit(train_x, train_y)
    print("best:", search.best_params_)
    print(classification_report(test_y, search.predict(test_x)))
    return float(search.score(test_x, test_y))


if __name__ == "__main__":
    main()
