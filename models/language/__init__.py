"""Language models and their adapters, for federated fine-tuning and unlearning.

The library transformers imports torchvision if torchvision is installed, and this import can fail
(``models.torchvision_ops`` tells why). ``models.language`` prevents the failure, so other modules
import ``models.language`` before transformers or peft.
"""

from models.torchvision_ops import declare_missing_operators

declare_missing_operators()
