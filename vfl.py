"""The Python interface of vfl: run a federation on this machine, predict, and forget rows.

``simulate`` runs all parties of a config, as the command ``vfl simulate`` does, and returns a
``Run``. ``SplitClassifier`` and ``SplitRegressor`` are scikit-learn estimators that train a split
model on data frames of several parties. All of them run the programs that the parties run in
production; in the vertical mode all parties are threads of this process.
"""

from parties.cli.requests.evidence import CheckedReceipt
from parties.python.estimators import SplitClassifier, SplitRegressor
from parties.python.runs import Forgotten, Run, simulate

__all__ = ["CheckedReceipt", "Forgotten", "Run", "SplitClassifier", "SplitRegressor", "simulate"]
