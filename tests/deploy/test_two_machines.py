"""The commands of docs/deploy.md on two simulated machines, from no key to a report."""

import json
import random
import re
import signal
import subprocess
from pathlib import Path
from threading import Event, Thread
from time import sleep

import pytest
from guide import Carried, Pinned, Typed, Written, steps
from machines import Machine, missing_requirement, two_machines

PEOPLE, HELD, PORT = 400, 300, 7700
PIN = re.compile(r'^pins = \["sha256:[0-9a-f]{64}"\]$', re.MULTILINE)


def write_tables(machines: dict[str, Machine]) -> None:
    """Write tables of 300 people each, in different orders; most people are in both."""
    draw = random.Random(7)
    people = [(f"c{number:04d}", draw.gauss(0, 1)) for number in range(PEOPLE)]
    lines = {"bank": ["customer_id,bought,age,town"], "shop": ["customer_id,visits,spent"]}
    for name, lot in lines.items():
        for organisation, weight in draw.sample(people, HELD):
            label = "yes" if weight > 0 else "no"
            if name == "bank":
                lot.append(
                    f"{organisation},{label},{draw.randint(18, 90)},{draw.choice(['ulm', 'bern'])}"
                )
            else:
                lot.append(f"{organisation},{weight + draw.gauss(0, 0.5):.4f},{draw.random():.4f}")
        (machines[name].home / "customers.csv").write_text("\n".join(lot) + "\n")


class GuideRun:
    """Carries out the steps of the guide at bank and shop."""

    def __init__(self, machines: dict[str, Machine]) -> None:
        self.machines = machines
        self.running: list[subprocess.Popen[str]] = []
        self.output: dict[str, str] = dict.fromkeys(machines, "")

    def type(self, step: Typed) -> None:
        machine = self.machines[step.organisation]
        if step.background:
            self.running.append(
                subprocess.Popen(
                    machine.command(step.commands), text=True, start_new_session=True,
                    stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                )
            )  # fmt: skip
            wait_for_port(machine, self.running[-1])
        else:
            self.output[step.organisation] += machine.type(step.commands)

    def write(self, step: Written) -> None:
        for name in [step.organisation] if step.organisation else list(self.machines):
            (self.machines[name].home / step.name).write_text(step.text)

    def carry(self, step: Carried) -> None:
        (a, source), (b, target) = step.source.split(":"), step.target.split(":")
        goal = self.machines[b].home / target
        goal.write_bytes((self.machines[a].home / source).read_bytes())

    def pin(self) -> None:
        """Write the pins that the shop has computed, of both keys, into both agreements."""
        pins = {"shop": self._pin("shop", "certs/shop.pem"), "bank": self._pin("shop", "bank.pem")}
        for machine in self.machines.values():
            file = machine.home / "people.toml"
            text = file.read_text()
            for party, pin in pins.items():
                assert self._pin(party, f"certs/{party}.pem") == pin
                text = text.replace(f"[parties.{party}]\n", f"[parties.{party}]\n{pin}\n")
            file.write_text(text)

    def _pin(self, organisation: str, file: str) -> str:
        match = PIN.search(self.machines[organisation].type(f"vfl certs fingerprint {file}"))
        assert match, file
        return match[0]

    def stop(self) -> None:
        for process in self.running:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
            process.communicate(timeout=10)


def wait_for_port(machine: Machine, process: "subprocess.Popen[str]") -> None:
    for _ in range(300):
        if PORT in machine.listening():
            return
        assert process.poll() is None, process.communicate()[0]
        sleep(0.1)
    raise AssertionError(f"{machine.name} does not listen")


def watch(machines: dict[str, Machine], over: Event, seen: dict[str, list[set[int]]]) -> None:
    while not over.wait(0.3):
        for name, machine in machines.items():
            seen[name].append(machine.listening())


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_commands_of_the_guide_produce_a_report_on_two_machines(tmp_path: Path) -> None:
    if why := missing_requirement():
        pytest.skip(why)
    over, seen = Event(), {"bank": list[set[int]](), "shop": list[set[int]]()}
    with two_machines(tmp_path) as machines:
        write_tables(machines)
        guided = GuideRun(machines)
        watcher = Thread(target=watch, args=(machines, over, seen))
        watcher.start()
        try:
            for step in steps():
                match step:
                    case Typed():
                        guided.type(step)
                    case Written():
                        guided.write(step)
                    case Carried():
                        guided.carry(step)
                    case Pinned():
                        guided.pin()
            output, _ = guided.running[0].communicate(timeout=60)
        finally:
            over.set()
            watcher.join()
            guided.stop()
    bank, shop = machines["bank"].home, machines["shop"].home
    assert guided.running[0].returncode == 0, output
    assert (bank / "runs/people/report.html").read_text().startswith("<!doctype html>")
    metrics = json.loads((bank / "runs/people/metrics.json").read_text())
    assert metrics["run"]["common_rows"] >= HELD - (PEOPLE - HELD)
    assert (shop / "runs/people/shop/model.safetensors").exists()
    assert_shop_has_no_results(shop)
    assert_key_is_not_at_bank(bank, shop)
    assert {port for ports in seen["bank"] for port in ports} == {PORT}
    assert len(seen["shop"]) > 5
    assert not any(seen["shop"])


def assert_shop_has_no_results(shop: Path) -> None:
    """Check that the shop has no labels or metrics, and no report but its own."""
    names = {path.name for path in shop.rglob("*")}
    assert not names & {"metrics.json", "officer.html", "ca.key", "bank.key", "bank.party.toml"}
    reports = [*shop.rglob("report.html")]
    assert reports == [shop / "runs/people/shop/report.html"]
    assert "Report of a passive party" in reports[0].read_text()


def assert_key_is_not_at_bank(bank: Path, shop: Path) -> None:
    """Check that the shop's key exists once, and not at the bank."""
    assert [path.relative_to(shop) for path in shop.rglob("*.key")] == [Path("certs/shop.key")]
    key = (shop / "certs/shop.key").read_bytes()
    assert not any(path.read_bytes() == key for path in bank.rglob("*") if path.is_file())


def test_every_block_of_the_guide_is_a_known_step() -> None:
    all_steps = list(steps())
    kinds = [type(step) for step in all_steps]
    assert {kind: kinds.count(kind) for kind in (Typed, Written, Carried, Pinned)} == {
        Typed: 10, Written: 3, Carried: 4, Pinned: 1,
    }  # fmt: skip
    assert {step.organisation for step in all_steps if isinstance(step, Typed)} == {"bank", "shop"}
