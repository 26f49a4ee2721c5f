"""Language models and their adapters, for federated fine-tuning and unlearning.

Importing this folder first makes torchvision importable, which transformers insists on where it
is installed; so modules elsewhere that use transformers or peft import from here before them.
"""

from models.torchvision_ops import declare_absent

declare_absent()
