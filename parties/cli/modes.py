"""The agreements of all modes, with the settings of the methods that this program has."""

from typing import Final

from configs.any_file import Agreements
from parties.horizontal.registry import AGREEMENT as HORIZONTAL
from parties.language.registry import AGREEMENT as LANGUAGE
from parties.vertical.methods.registry import AGREEMENT as VERTICAL

AGREEMENTS: Final = Agreements(VERTICAL, HORIZONTAL, LANGUAGE)
