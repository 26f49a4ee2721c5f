"""Own networks of an estimator: objects, or classes that the parties import."""

from dataclasses import dataclass

from torch import nn

from configs.errors import ConfigError
from parties.vertical.engine.networks import give_module, module_source_digest


@dataclass(frozen=True, slots=True)
class OwnNetwork:
    """An own network, as the parties find it."""

    digest: str  # for the agreement
    path: str | None  # import path of a class; None for an object
    given: nn.Module | None  # the copy of an object, which must exist while parties build it


def own_network(name: str, own: nn.Module | type[nn.Module], *, processes: bool) -> OwnNetwork:
    """Return an own network, an object or a class, as the parties find it.

    Args:
        name: what the network is, for errors.
        own: the network.
        processes: whether the parties are processes of their own, which only import classes.

    Raises:
        ConfigError: the network is not suitable.
    """
    if isinstance(own, nn.Module):
        if processes:
            raise ConfigError(
                f"{name} is an object, whose code cannot be sent to another process safely",
                "give its class, which every process imports from its source file, or fit with "
                "processes=False",
            )
        digest, given = give_module(name, own)
        return OwnNetwork(digest, None, given)
    if not (isinstance(own, type) and issubclass(own, nn.Module)):
        raise ConfigError(
            f"{name} is no torch.nn.Module, but of the type {type(own).__name__}",
            "give an object or a subclass of torch.nn.Module",
        )
    if "." in own.__qualname__:
        raise ConfigError(
            f"the class {own.__qualname__} is inside a function or another class",
            "define the class at the top level of a module, or give an object of the class",
        )
    try:
        digest = module_source_digest(own)
    except (OSError, TypeError) as error:
        raise ConfigError(
            f"{own.__qualname__} has no source file",
            "define the class in a file, and import it from there; or give an object of the class",
        ) from error
    return OwnNetwork(digest, f"{own.__module__}:{own.__qualname__}", None)
