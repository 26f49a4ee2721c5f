"""Language models and their adapters, for federated fine-tuning and unlearning.

The library transformers imports torchvision if torchvision is installed. Importing
``models.language`` makes sure that this import succeeds, so other modules import
``models.language`` before transformers or peft.
"""

from models.torchvision_ops import declare_missing_operators

declare_missing_operators()
