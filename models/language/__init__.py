"""Language models and their adapters, for federated fine-tuning and unlearning.

transformers imports torchvision where it is installed. Importing this package first makes sure that
torchvision can be imported, so other modules import from here before they import transformers or
peft.
"""

from models.torchvision_ops import declare_missing_operators

declare_missing_operators()
