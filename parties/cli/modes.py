"""The agreements of all modes, with the settings of the methods that this program has."""

from typing import Final

from configs.any_file import Agreements
from parties.vertical.methods.registry import AGREEMENT

AGREEMENTS: Final = Agreements(vertical=AGREEMENT)
