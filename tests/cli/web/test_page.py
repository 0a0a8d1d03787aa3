"""The page in headless Chromium: figures move, nothing complains, narrow screens, keyboards, hostile names, acting."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from fed_cli.fleetrun.watching import Watch
from fed_cli.web.acting import Answer, Token
from fed_cli.web.feeds import FolderFeed, LiveFeed
from tests.cli.reports.folders import write_run
from tests.cli.web.fleet_lines import (
    FakeMonitor,
    fleet,
    member,
    picture,
    plan,
    png,
    robot,
    selection,
    services,
)
from tests.cli.web.served import Acting, Served, served
from tests.cli.web.tabs import WIDE, Tab

NARROW = {"width": 400, "height": 800}
HOSTILE = "<img src=x onerror=\"document.title='taken'\"></table><script>document.title='taken'</script>"


Opener = Callable[..., Tab]


@pytest.fixture
def tab(browser: Any) -> Iterator[Opener]:
    opened: list[Tab] = []

    def opening(url: str, size: dict[str, int] = WIDE, **more: Any) -> Tab:
        opened.append(Tab(browser, size, **more))
        opened[-1].page.goto(url)
        return opened[-1]

    yield opening
    for one in opened:
        one.close()


@pytest.fixture
def monitor(tmp_path: Path) -> Iterator[FakeMonitor]:
    made = FakeMonitor(tmp_path)
    yield made
    made.close()


class FakeCaller:
    """Remembers the calls."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, str, bool | None]] = []

    def call(self, service: str, kind: str, value: bool | None) -> Answer:
        self.calls.append((service, kind, value))
        return Answer(True, "training is paused")


@pytest.fixture
def caller() -> FakeCaller:
    return FakeCaller()


@pytest.fixture
def live(monitor: FakeMonitor) -> Iterator[Served]:
    with served(LiveFeed(monitor.reader, Watch("/fleet", 7))) as made:
        yield made


@pytest.fixture
def with_token(monitor: FakeMonitor, caller: FakeCaller) -> Iterator[Served]:
    acting = Acting(Token("correct-horse"), caller)
    with served(LiveFeed(monitor.reader, Watch("/fleet", 7)), acting) as made:
        yield made


def yard(folder: Path) -> list[dict[str, Any]]:
    """A fleet with something in every part of the page."""
    members = (member("ann", clusters=[0], reported=True), member("bob", clusters=[0, 1]), member("cat", alive=False))
    losses = [
        robot(name, round=number, loss=loss / number)
        for number in (1, 2)
        for name, loss in (("ann", 8.0), ("bob", 6.0))
    ]
    look = png(folder / "look.png", (30, 120, 200), (320, 120))
    return [fleet(*members), plan(deadline_s=600.0), *losses, selection(), picture(look, width=320, height=120)]


def test_figures_of_a_live_fleet_move(tab: Opener, live: Served, monitor: FakeMonitor, tmp_path: Path) -> None:
    one = tab(live.url)
    one.shows("#notes p", "The monitor starts.")
    monitor.say({"kind": "graph", "fleets": ["/fleet"]}, *yard(tmp_path))
    one.shows("#title", "yard")
    one.shows("#rounds-text", "round 2 of 5")
    assert one.texts("#notes p") == []
    assert one.texts("#connection") == ["live"]
    assert one.texts("#robots-rows th") == ["ann", "bob", "cat"]
    assert one.texts("#robots-rows .pill") == ["training", "training", "away"]
    assert one.texts('#robots-rows td[data-title="Loss"]') == ["4.000", "3.000", ""]
    assert one.texts("#faults-list strong") == ["cat"]
    assert one.texts("#clusters-table tbody tr:first-child td") == ["·", "·"]  # cat is in none
    assert one.texts("#serving-table tbody td")[:3] == ["sequence_1", "cluster 1", "1"]
    one.page.wait_for_function("() => document.querySelector('#pictures img')?.naturalWidth === 320")

    monitor.say(robot("bob", loss=0.5), fleet(member("ann"), member("bob"), member("cat"), round=3))

    one.shows("#rounds-text", "round 3 of 5")
    one.shows('#robots-rows tr:nth-child(2) td[data-title="Loss"]', "0.500")
    one.page.wait_for_function("() => !document.querySelector('#faults-list li')")
    assert one.page.title() == "yard · round 3/5"
    assert one.complaints == []


def test_two_browsers_see_the_same(tab: Opener, live: Served, monitor: FakeMonitor) -> None:
    both = [tab(live.url), tab(live.url, NARROW)]
    monitor.say(fleet(member("ann")), robot("ann", loss=1.25))
    for one in both:
        one.shows('#robots-rows td[data-title="Loss"]', "1.250")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_fits_a_narrow_screen(
    tab: Opener, with_token: Served, monitor: FakeMonitor, tmp_path: Path, scheme: str
) -> None:
    monitor.say(*yard(tmp_path), robot("a_robot_with_a_long_name_" * 4), services(pause_training="SetBool"))
    one = tab(with_token.url, NARROW, color_scheme=scheme)
    one.shows("#title", "yard")
    one.page.wait_for_function("() => document.querySelector('#pictures img')?.naturalWidth === 320")
    assert one.page.evaluate("document.documentElement.scrollWidth") == 400
    outside = """[...document.querySelectorAll('main *')].filter((node) => {
        const box = node.getBoundingClientRect();
        return box.width > 1 && box.right > 400.5 && !node.closest('.scroll');
    }).map((node) => node.outerHTML.slice(0, 80))"""
    assert one.page.evaluate(outside) == []
    # The background follows what the browser asks for.
    colour = one.page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert colour == {"light": "rgb(243, 245, 248)", "dark": "rgb(15, 21, 27)"}[scheme]


def test_a_hostile_name_is_text(tab: Opener, with_token: Served, monitor: FakeMonitor) -> None:
    monitor.say(
        fleet(member(HOSTILE, refused=1, last_text=HOSTILE, clusters=[0, 1]), run=HOSTILE, waiting_for=HOSTILE),
        robot(HOSTILE, text=HOSTILE, phase=HOSTILE),
        selection(HOSTILE, run=HOSTILE, sequence=HOSTILE),
        {"kind": "services", "services": [{"name": f"/{HOSTILE}/x", "type": "std_srvs/srv/Trigger"}]},
    )
    one = tab(with_token.url)
    one.shows("#robots-rows th", HOSTILE)
    one.shows("#faults-list strong", HOSTILE)
    one.page.wait_for_selector("#act button")
    assert one.page.locator("img, main script").count() == 0
    assert one.page.title().startswith(HOSTILE)
    assert one.complaints == []


def test_names_that_look_the_same_do_not_grow_the_page(tab: Opener, live: Served, monitor: FakeMonitor) -> None:
    long = "spot" * 100  # both are cut off at the same place
    one = tab(live.url)
    for number in (2, 3, 4):
        monitor.say(fleet(*(member(long + end, refused=1) for end in "ab"), round=number))
        one.shows("#rounds-text", f"round {number} of 5")
        assert len(one.texts("#robots-rows th")) == len(one.texts("#faults-list li")) == 2


def focused(one: Tab) -> str:
    return str(
        one.page.evaluate("(document.activeElement.id || document.activeElement.getAttribute('aria-label')) ?? ''")
    )


def test_a_keyboard_reaches_and_works_everything(
    tab: Opener, with_token: Served, monitor: FakeMonitor, caller: FakeCaller, tmp_path: Path
) -> None:
    monitor.say(*yard(tmp_path), services(pause_training="SetBool", new_sequence="Trigger"))
    one = tab(with_token.url)
    one.shows("#title", "yard")
    keys = one.page.keyboard
    keys.press("Tab")
    assert one.page.evaluate("document.activeElement.className") == "skip"
    assert one.page.evaluate("document.activeElement.getBoundingClientRect().top >= 0"), "it is seen when it has focus"
    outline = one.page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
    assert outline == "solid"
    keys.press("Enter")
    assert focused(one) == "robots"
    order = []
    for _ in range(5):
        keys.press("Tab")
        order.append(focused(one))
    assert order == ["robots-find", "robots-order", "clusters-table", "serving-table", "token"]

    keys.type("correct-horse")
    keys.press("Tab")
    assert focused(one) == "New sequence of /spot1"
    keys.press("Tab")
    assert focused(one) == "Pause training of /spot1"
    keys.press("Enter")
    one.shows("#act .result", "Pause training of /spot1: training is paused")
    assert caller.calls == [("/spot1/pause_training", "std_srvs/srv/SetBool", True)]

    # States that come meanwhile leave the focus where it is, also where what stood before it goes.
    monitor.say(fleet(member("ann"), round=4), services(pause_training="SetBool"))
    one.shows("#rounds-text", "round 4 of 5")
    one.page.wait_for_function("() => document.querySelectorAll('#act button').length === 2")
    assert focused(one) == "Pause training of /spot1"


def test_robots_are_found_and_put_in_order(tab: Opener, live: Served, monitor: FakeMonitor) -> None:
    names = ("spot1", "spot2", "uav")
    alive = {"spot1": True, "spot2": False, "uav": True}
    monitor.say(fleet(*(member(name, alive=alive[name]) for name in names)))
    monitor.say(*(robot(name, loss=loss) for name, loss in zip(names, (1.0, 2.0, 3.0), strict=True)))
    one = tab(live.url)
    one.page.wait_for_selector("#robots-rows tr")
    one.page.select_option("#robots-order", "loss")
    assert one.texts("#robots-rows th") == ["uav", "spot2", "spot1"]
    one.page.select_option("#robots-order", "trouble")
    assert one.texts("#robots-rows th") == ["spot2", "spot1", "uav"]
    one.page.fill("#robots-find", "SPOT")
    assert one.texts("#robots-rows th") == ["spot2", "spot1"]
    one.page.fill("#robots-find", "dog")
    assert one.texts("#robots-note") == ["No robot has such a name."]


def test_nothing_acts_without_a_token(tab: Opener, live: Served, monitor: FakeMonitor) -> None:
    monitor.say(fleet(member("ann")), services(pause_training="SetBool"))
    one = tab(live.url)
    one.shows("#title", "yard")
    assert one.page.locator("button, input[type=password]").count() == 0
    assert one.page.locator("#act").is_hidden()


def test_a_wrong_token_is_told(tab: Opener, with_token: Served, monitor: FakeMonitor, caller: FakeCaller) -> None:
    monitor.say(fleet(member("ann")), services(pause_training="SetBool"))
    one = tab(with_token.url)
    button = one.page.get_by_role("button", name="Resume training of /spot1")
    button.wait_for()
    assert button.is_disabled()
    one.page.fill("#token", "wrong-horse")
    button.click()
    one.shows("#act .result", "Resume training of /spot1: the token is wrong or missing")
    assert caller.calls == []
    one.page.fill("#token", "correct-horse")
    button.click()
    one.shows("#act .result", "Resume training of /spot1: training is paused")
    assert caller.calls == [("/spot1/pause_training", "std_srvs/srv/SetBool", False)]


def test_it_says_when_the_connection_is_lost_and_comes_back(tab: Opener, monitor: FakeMonitor) -> None:
    monitor.say(fleet(member("ann")))
    with served(LiveFeed(monitor.reader, Watch())) as first:
        one = tab(first.url)
        one.shows("#rounds-text", "round 2 of 5")
        assert one.page.locator("#lost").is_hidden()
    one.page.wait_for_selector("#lost", state="visible")
    assert one.texts("#connection") == ["connection lost"]
    assert one.texts("#lost")[0].startswith("Connection lost at ")
    monitor.say(fleet(member("ann"), round=4))
    with served(LiveFeed(monitor.reader, Watch()), port=first.port):
        one.shows("#rounds-text", "round 4 of 5")
        one.page.wait_for_selector("#lost", state="hidden")
        assert one.texts("#connection") == ["live"]


def test_runs_of_a_demo_are_chosen(tab: Opener, tmp_path: Path) -> None:
    for name in ("fedavg", "fedepth"):
        write_run(tmp_path / "demo" / "aggregator" / name, clusters={"ann": (0,), "bob": (1,)})
    (tmp_path / "demo" / "demo.json").write_text('{"seed": 0}')
    with served(FolderFeed(tmp_path / "demo")) as made:
        one = tab(made.url)
        one.shows("#title", "demo/fedavg")
        assert one.texts("#connection") == ["recorded"]
        assert one.texts("#chart-table tbody td") == ["7.500", "7.000", "8.000", "3.500", "3.000", "4.000"]
        assert one.texts("#tables h2") == ["The runs"]
        one.page.select_option("#run", "demo/fedepth")
        one.shows("#title", "demo/fedepth")
        assert one.complaints == []
