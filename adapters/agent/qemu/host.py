"""What all instances of a node share."""

from msgspec import Struct

from adapters.agent import program
from adapters.agent.driver import Means
from adapters.agent.qemu.settings import Accelerator, Settings


class Host(Struct, frozen=True):
    means: Means
    settings: Settings
    accelerator: Accelerator
    run: program.Run = program.run
