"""Tasks of a search or a study on Ray: on this machine, or on a cluster with the same program.

Ray sends pickled Python objects between its processes, so every machine of the cluster can run any
code. The cluster must therefore be trusted. Only this process reads files: what the tasks need goes
through Ray's object store, which sends it once to each node.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from configs.errors import ConfigError
from parties.common.errors import ResourceError

try:
    import ray
    from ray.exceptions import RayError

    from parties.horizontal.simulation.ray_nodes import (
        check_nodes,
        connect,
        job_slots,
        require_cores,
    )
except ImportError as error:
    raise ConfigError(
        "--ray is given, but ray is not installed", "run: pip install 'vfl[ray]'"
    ) from error

PERIOD = 60.0  # seconds after which the nodes are looked at again
HERE = "local"  # in place of an address: Ray on this machine, for this command alone


class RayTasks:
    """A connection to Ray; use it in a ``with`` block."""

    def __init__(self, address: str, threads: int) -> None:
        """Connect to the cluster at ``address``, or start Ray here if it is ``"local"``.

        ``threads`` is the number of threads, and so of cores, of each task.

        Raises:
            ConfigError: Ray cannot be started or reached, a node lacks the program, or no node has
                the cores.
        """
        connect(None if address == HERE else address, None, "--ray")
        try:
            require_cores(threads, "--ray")
            check_nodes("--ray")
        except BaseException:
            ray.shutdown()
            raise
        self._threads = threads

    def __enter__(self) -> "RayTasks":
        return self

    def __exit__(self, *_: object) -> None:
        ray.shutdown()

    def share(self, value: object) -> Any:
        """Store a value once; a task that gets the result as an argument gets the value."""
        return ray.put(value)

    def run(
        self, work: Callable[..., Any], jobs: Sequence[Sequence[Any]]
    ) -> Iterator[tuple[int, Any]]:
        """Yield the number of each job with what ``work`` returns for its arguments, as they end.

        A job that a node lost is repeated up to three times. At most twice as many jobs as the
        cluster runs at once are sent, so that few results wait.

        Raises:
            ResourceError: Ray lost a job.
            Exception: an error of ``work``, unchanged.
        """
        remote = ray.remote(num_cpus=self._threads, max_retries=3)(work)
        waiting, running = list(enumerate(jobs)), dict[Any, int]()
        while waiting or running:
            while waiting and len(running) < 2 * job_slots(None, self._threads):
                number, arguments = waiting.pop(0)
                running[remote.remote(*arguments)] = number
            done, _ = ray.wait(list(running), timeout=PERIOD)
            if not done:  # if a node has left, perhaps no other one can run the tasks
                require_cores(self._threads, "--ray")
            for each in done:
                yield running.pop(each), _result(each)


def _result(task: Any) -> Any:
    try:
        return ray.get(task)
    except RayError as error:
        cause = getattr(error, "cause", None)
        if cause is not None:
            raise cause from None
        raise ResourceError(f"Ray lost a task: {error}", "run: ray status") from error
