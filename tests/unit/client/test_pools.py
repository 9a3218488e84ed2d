"""Finding pools."""

import pytest

from bettercompute.client import failures, pools
from tests.support import answers
from tests.support.flows import Driver


def listing(*items: dict[str, object]) -> Driver:
    return Driver([answers.answer({"items": list(items), "nextCursor": None})])


@pytest.mark.parametrize("reference", ["mig", "pool_mig"])
def test_a_pool_is_found_by_name_or_id(reference: str) -> None:
    driver = listing(answers.pool("main"), answers.pool("mig"))
    assert driver.run(pools.find(driver.api, reference)).id == "pool_mig"


def test_a_missing_pool_is_not_found_and_the_others_are_named() -> None:
    driver = listing(answers.pool("main"), answers.pool("mig"))
    with pytest.raises(failures.NotFound, match="main, mig"):
        driver.run(pools.find(driver.api, "man"))


def test_a_name_that_two_pools_have_is_not_guessed() -> None:
    driver = listing(answers.pool("main"), answers.pool("main", id="pool_other"))
    with pytest.raises(failures.Conflict, match="pool_main, pool_other"):
        driver.run(pools.find(driver.api, "main"))


def test_a_timeline_names_its_window_only_where_one_is_given() -> None:
    empty = {"poolId": "pool_main", "from": 0, "to": 1, "capacity": [], "devices": []}
    driver = Driver([answers.answer(empty)] * 2)
    driver.run(pools.timeline(driver.api, "pool_main"))
    driver.run(pools.timeline(driver.api, "pool_main", start_ms=0, end_ms=1))
    assert [call.query for call in driver.calls] == [(), (("from", "0"), ("to", "1"))]
