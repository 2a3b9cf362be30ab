"""Commands run in order, one at a time, none twice; what each redelivery is answered."""

import asyncio
import contextlib

from fake_plane import scenario, until

from adapters.agent import protocol
from adapters.agent.commander import Commander, Failure
from adapters.agent.journal import Begun, Finished, Journal, Memory
from domain.node_command import TYPES


class Node:
    """A commander, what it was made to run, and what it told the plane in the session of `epoch`."""

    def __init__(self, journal=None, boot_id="boot-1"):
        self.journal = journal or Journal(Memory())
        self.ran = []
        self.told = []
        self.epoch = 1
        self.may_end = asyncio.Event()
        self.may_end.set()
        self.failure = None
        execute = dict.fromkeys(("inspect", "reboot", "gpu-reset", "run-acceptance"), self.execute)
        self.commander = Commander(self.journal, execute, boot_id)

    async def execute(self, params):
        self.ran.append(params)
        await self.may_end.wait()
        if self.failure:
            raise self.failure
        return {"n": len(self.ran)}

    async def tell(self, make):
        self.told.append(make(self.epoch))

    def results(self):
        return [(m.command_id, m.outcome, m.reason) for m in self.told if isinstance(m, protocol.Result)]

    def acks(self):
        return [(m.command_id, m.epoch) for m in self.told if isinstance(m, protocol.Ack)]

    @contextlib.asynccontextmanager
    async def running(self):
        task = asyncio.create_task(self.commander.run(self.tell))
        try:
            yield self
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


def command(seq=1, name="inspect", params=None, remaining=60, timeout=600):
    of = TYPES[name]
    return protocol.Command(f"cmd_{seq}", seq, name, params or {}, of.flags, timeout, remaining)


GPU = {"gpuUuid": "GPU-00000000-0000-4000-8000-000000000001"}


@scenario
async def test_a_command_is_journalled_acknowledged_run_and_answered():
    async with Node().running() as node:
        node.may_end.clear()
        node.commander.take(command())
        await until(lambda: node.ran)
        assert node.journal.begun("cmd_1") == Begun("cmd_1", "inspect", 1, "boot-1")
        assert node.told == [protocol.Ack("cmd_1", 1)]
        node.may_end.set()
        await until(node.results)
        assert node.told[1] == protocol.Result("cmd_1", 1, "succeeded", {"n": 1})
        assert node.journal.finished("cmd_1") == Finished("cmd_1", "succeeded", {"n": 1})


@scenario
async def test_commands_run_one_at_a_time_in_the_order_of_their_numbers():
    async with Node().running() as node:
        node.may_end.clear()
        node.commander.take(command(1))
        await until(lambda: node.ran)
        node.commander.take(command(3))
        node.commander.take(command(2))
        assert [id for id, _ in node.acks()] == ["cmd_1"]
        node.may_end.set()
        await until(lambda: len(node.results()) == 3)
        assert [id for id, _ in node.acks()] == [id for id, _, _ in node.results()] == ["cmd_1", "cmd_2", "cmd_3"]


@scenario
async def test_a_redelivery_of_what_ended_is_answered_from_the_journal_in_the_present_session():
    async with Node().running() as node:
        node.commander.take(command())
        await until(node.results)
        node.epoch = 2
        node.commander.begin()
        node.commander.take(command())
        await until(lambda: len(node.results()) == 2)
        assert node.told[-1] == protocol.Result("cmd_1", 2, "succeeded", {"n": 1})
        assert len(node.ran) == 1


@scenario
async def test_a_redelivery_of_what_runs_is_acknowledged_in_the_present_session():
    async with Node().running() as node:
        node.may_end.clear()
        node.commander.take(command())
        await until(lambda: node.ran)
        node.epoch = 2
        node.commander.begin()
        node.commander.take(command())
        await until(lambda: len(node.acks()) == 2)
        node.may_end.set()
        await until(node.results)
        assert node.acks() == [("cmd_1", 1), ("cmd_1", 2)]
        assert node.told[-1].epoch == 2
        assert len(node.ran) == 1


@scenario
async def test_what_waits_when_a_session_begins_is_forgotten_as_it_comes_again():
    async with Node().running() as node:
        node.may_end.clear()
        node.commander.take(command(1))
        node.commander.take(command(2))
        await until(lambda: node.ran)
        node.commander.begin()
        node.may_end.set()
        await until(node.results)
        node.commander.take(command(3))
        await until(lambda: len(node.results()) == 2)
        assert [id for id, _ in node.acks()] == ["cmd_1", "cmd_3"]


@scenario
async def test_what_died_with_the_agent_runs_again_if_it_may_and_else_was_interrupted():
    for name, params, outcome in (("inspect", {}, ("succeeded", "")), ("gpu-reset", GPU, ("failed", "Interrupted"))):
        journal = Journal(Memory())
        async with Node(journal).running() as dying:
            dying.may_end.clear()
            dying.commander.take(command(1, name, params))
            await until(lambda dying=dying: dying.ran)
        async with Node(journal).running() as node:
            node.commander.take(command(1, name, params, remaining=0))
            await until(node.results)
            assert node.results() == [("cmd_1", *outcome)]


@scenario
async def test_what_comes_too_late_does_not_begin():
    async with Node().running() as node:
        node.commander.take(command(remaining=0))
        await until(node.results)
        assert node.results() == [("cmd_1", "expired", "")]
        assert (node.ran, node.acks()) == ([], [])


@scenario
async def test_what_takes_too_long_has_failed():
    async with Node().running() as node:
        node.may_end.clear()
        node.commander.take(command(timeout=0))
        await until(node.results)
        assert node.results() == [("cmd_1", "failed", "TimedOut")]


@scenario
async def test_a_failure_names_its_reason_and_what_is_known():
    async with Node().running() as node:
        node.failure = Failure("NotReset", detail="busy")
        node.commander.take(command(1, "gpu-reset", GPU))
        node.commander.take(command(2, "gpu-reset", {"gpuUuid": "x"}))
        node.commander.take(command(3, "prefetch-image"))
        await until(lambda: len(node.results()) == 3)
        assert [reason for _, _, reason in node.results()] == ["NotReset", "InvalidParams", "NotSupported"]
        assert node.told[1].result == {"detail": "busy"}


@scenario
async def test_an_error_of_an_executor_is_the_commands_and_not_the_agents():
    async with Node().running() as node:
        node.failure = ZeroDivisionError("oops")
        node.commander.take(command())
        await until(node.results)
        assert node.results() == [("cmd_1", "failed", "Crashed")]


@scenario
async def test_a_result_that_no_message_could_bear_is_left_out():
    async with Node().running() as node:
        node.failure = Failure("Long", text="x" * 70_000)
        node.commander.take(command())
        await until(node.results)
        assert node.told[-1].result == {"detail": "the result had 70011 bytes"}


@scenario
async def test_a_reboot_has_no_result_until_the_machine_came_back():
    journal = Journal(Memory())
    async with Node(journal).running() as node:
        node.commander.take(command(1, "reboot"))
        await until(lambda: node.ran)
        node.commander.take(command(2))
        assert node.results() == []
    async with Node(journal, "boot-2").running() as node:
        node.commander.take(command(1, "reboot"))
        node.commander.take(command(2))
        await until(lambda: len(node.results()) == 2)
        assert node.told[0] == protocol.Result("cmd_1", 1, "succeeded", {"bootId": "boot-2"})
        assert len(node.ran) == 1


@scenario
async def test_a_reboot_that_did_not_happen_is_tried_once_more():
    journal = Journal(Memory())
    for _ in range(2):
        async with Node(journal).running() as node:
            node.commander.take(command(1, "reboot"))
            await until(lambda node=node: node.ran)
    async with Node(journal).running() as node:
        node.commander.take(command(1, "reboot"))
        await until(node.results)
        assert (node.results(), node.ran) == ([("cmd_1", "failed", "StillRunning")], [])


class Full(Memory):
    """A disk without room."""

    def append(self, line):
        raise OSError(28, "No space left on device")


@scenario
async def test_what_cannot_be_journalled_is_not_run_and_fails_while_the_agent_goes_on():
    async with Node(Journal(Full())).running() as node:
        node.commander.take(command(1))
        node.commander.take(command(2))
        await until(lambda: len(node.results()) == 2)
        assert {(outcome, reason) for _, outcome, reason in node.results()} == {("failed", "NoJournal")}
        assert node.ran == []
