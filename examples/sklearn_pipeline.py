"""A table with words and gaps becomes a network for Core ML, ONNX and C: python sklearn_pipeline.py [FOLDER]

scikit-learn prepares the table, and openbnns.sklearn trains the network. Needs pip install "openbnns[sklearn,onnx]".
"""

import sys
import tempfile

import numpy as np
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.metrics import classification_report
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from openbnns.coreml import MLModel
from openbnns.sklearn import MLPClassifier


def flowers(count: int = 800) -> tuple[np.ndarray, np.ndarray]:
    """Length, width and colour, of which some are missing, and the kind to be told from them."""
    rng = np.random.default_rng(0)
    kind = rng.integers(0, 3, count)
    sizes = np.array([[5, 2], [6, 1.5], [5.5, 3]])[kind] + rng.normal(0, 0.5, (count, 2))
    sizes[rng.random(sizes.shape) < 0.05] = np.nan
    colour = np.where(rng.random(count) < 0.7, np.array(["white", "blue", "red"])[kind], "white")
    return np.column_stack([sizes.astype(object), colour]), np.array(["iris", "lily", "rose"])[kind]


def main(folder: str) -> float:
    x, y = flowers()
    train_x, test_x, train_y, test_y = train_test_split(x, y, random_state=0, stratify=y)
    columns = ColumnTransformer([
        ("numbers", make_pipeline(SimpleImputer(), StandardScaler()), [0, 1]),
        ("words", OneHotEncoder(handle_unknown="ignore"), [2]),
    ])  # fmt: skip
    model = make_pipeline(columns, MLPClassifier(early_stopping=True, random_state=0))
    rates = {"mlpclassifier__learning_rate_init": [0.003, 0.03]}
    search = GridSearchCV(model, rates, cv=3).fit(train_x, train_y)
    print("best:", search.best_params_)
    print(classification_report(test_y, search.predict(test_x)))

    model = search.best_estimator_
    network = model[-1].network_  # its inputs are the features that the columns have become
    network.to_onnx(f"{folder}/flowers.onnx")
    network.to_c(f"{folder}/c", name="flowers")
    package = network.to_coreml(f"{folder}/flowers.mlpackage")

    features = np.float32(model[:-1].transform(test_x[:1]))
    print("Core ML says", MLModel(package.path).predict({"input": features})["classLabel"])
    return float(search.score(test_x, test_y))


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp())
