"""The schemas of the config files of all modes, with the settings of methods and data sources."""

from typing import Final

from configs.config_file import AnySchema
from parties.horizontal.registry import SCHEMA as HORIZONTAL
from parties.language.registry import SCHEMA as LANGUAGE
from parties.vertical.methods.registry import SCHEMA as VERTICAL

SCHEMAS: Final[tuple[AnySchema, ...]] = (VERTICAL, HORIZONTAL, LANGUAGE)
