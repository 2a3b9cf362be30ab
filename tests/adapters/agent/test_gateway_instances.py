"""What sessions say of instances: the NodeSpec with its tokens, reports, consoles (domain.md §6, §8)."""

from typing import Any

from fake_plane import NODE, FakeStore, opened, plane, scenario, token, until

from adapters.agent import protocol
from domain import flavor, instance, instance_life, node, node_spec

ONE, OTHER = "inst_one", "inst_other"


def draft(**fields: Any) -> instance.Drafted:
    image = instance.Image("img_1", "tiny", "1", "acme", "raw", "0" * 64, 512, None)
    size = instance.Flavor("flv_1", "small", flavor.Size(2, 4, 10))
    return instance.Drafted(
        "acme", "me", "web", "vm", "pool_1", "vps", size, image, "rsv_1", True, "fail", "0" * 64, 1, **fields
    )


def placed(store: FakeStore, id: str = ONE) -> node_spec.Instance:
    """The node has it, on an allocation of the same name."""
    store.add(draft(), id)
    store.add(instance.Admitted("adm_1"), id)
    spec = instance_life.specified(id, store.load(id).state, "alloc_" + id)
    state = store.state()
    allocation = node_spec.Allocation("alloc_" + id, "rsv_" + id, ())
    store.add(node.SpecChanged(state.generation + 1, (allocation,), instances=(spec,)))
    store.add(instance.Placed(NODE, "n1", allocation.id, state.generation + 1, 2), id)
    return spec


@scenario
async def test_the_spec_has_instances_and_a_token_of_each():
    store = FakeStore()
    specs = placed(store), placed(store, OTHER)
    async with plane(store) as made, opened(made) as agent:
        told = agent.spec
        assert told.instances == specs
        assert told.tokens == {one.allocation_id: token(one.allocation_id, one.id) for one in specs}
        store.add(node.SpecChanged(3, without=(ONE,)))
        made.gateway.has_news(NODE)
        told = await agent.hear()
        assert [one.id for one in told.instances] == [OTHER]
        assert list(told.tokens) == ["alloc_" + OTHER]


@scenario
async def test_a_console_is_kept_the_newest_of_each_and_of_others_nothing():
    store = FakeStore()
    placed(store)
    async with plane(store) as made, opened(made) as agent:
        await agent.say(protocol.Console("inst_strange", 1, "x"))
        for total in range(1, 9):
            await agent.say(protocol.Console(ONE, total, "x" * total))
        await until(lambda: ONE in made.consoles.of)
        made.gateway.sweep()
        await until(lambda: made.consoles.of[ONE].total_bytes == 8)
        assert (made.consoles.of[ONE].tenant_id, list(made.consoles.of)) == ("acme", [ONE])


@scenario
async def test_consoles_wait_while_the_store_is_down():
    store = FakeStore()
    placed(store)
    async with plane(store) as made, opened(made) as agent:
        store.down = True
        await agent.say(protocol.Console(ONE, 3, "abc"))
        await until(lambda: store.failed > 0)
        assert made.consoles.of == {}
        store.down = False
        await until(lambda: ONE in made.consoles.of)


@scenario
async def test_a_console_that_is_too_long_is_no_message():
    store = FakeStore()
    async with plane(store) as made, opened(made) as agent:
        await agent.say(protocol.Console(ONE, 3, "a" * (protocol.MAX_CONSOLE + 1)))
        assert (await agent.closed())[0] == protocol.MALFORMED
