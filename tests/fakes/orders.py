"""A table of orders and its topic of two partitions, in memory: what is sent, and the rows that stand."""

from fakes.world import World

NAME, INTERMEDIATE = "lake.shop.orders", "lake.shop.orders_shop_tmp"


def make_orders() -> World:
    """Three records of two keys, one partition each; nothing is flushed yet."""
    world = World()
    world.broker.create("orders", 2)
    send_orders(world, ("a", "1"), ("b", "1"), ("a", "2"))
    return world


def send_orders(world: World, *records: tuple[str, str | None]) -> None:
    """A row's name by its key, or a delete; the key's letter chooses the partition."""
    for key, name in records:
        value = None if name is None else {"id": key, "name": name}
        world.broker.produce("orders", {"id": key}, value, ord(key) % 2)


def read_orders(world: World) -> dict[str, str]:
    """The names that stand, by key."""
    return {row["id"]: row["name"] for row in world.read_rows(NAME)}
