"""The real sites, played by a small server: logging in, lending copies, resetting them, and checking all of it."""

import asyncio
import json
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import processes
import pytest
import pytest_asyncio
from click.testing import CliRunner
from websites import Handler, Site, config, serving, unused_url

from coevo.config import load_experiment
from coevo.errors import ConfigError, WorldError
from webarena.accounts import Account
from webarena.benchmark import BenchmarkTasks, tasks
from webarena.browser import Browser
from webarena.cli import webarena
from webarena.configs import SITES
from webarena.login import Logins, log_in, merge
from webarena.real import RealWorlds, Replica, site_urls
from webarena.web import WebPool
from webarena.worlds import Lease

ROOT = Path(__file__).parents[1]
DATA = ROOT.parent / "shared" / "data" / "webarena"
ADA = Account("ada", "secret")
FORMS = {
    "/customer/account/login/": ("login[username]", "login[password]", "/customer/account/"),
    "/admin/": ("login[username]", "login[password]", "/admin/"),
    "/login": ("_username", "_password", "/user/ada/account"),
    "/users/sign_in": ("user[login]", "user[password]", "/-/profile"),
}
PRIVATE = {private: form for form, (_, _, private) in FORMS.items()}


class Shop(Handler):
    """All four kinds of login form; a session is a cookie `session` that the server knows."""

    def do_GET(self) -> None:
        site: Any = self.server.site
        path = self.path.split("?")[0]
        if path == "/admin":
            path = "/admin/"
        inside = any(f"session={known}" in self.headers.get("Cookie", "") for known in site.sessions)
        site.requests.append(("GET", path))
        if path == "/magento_version":
            return self.answer("Magento/2.4 (Community)")
        if path in PRIVATE and inside:
            return self.answer("<title>Account</title><p>Your account</p>")
        if path == "/admin/":
            return self.form(path)
        if path in PRIVATE:
            return self.answer("", status=302, headers={"Location": PRIVATE[path]})
        if path in FORMS:
            return self.form(path)
        return super().do_GET()

    def form(self, path: str) -> None:
        user, password, _ = FORMS[path]
        self.answer(
            f"<title>Log in</title><form method=post action={path}><input name='{user}'>"
            f'<input type=password name="{password}"><button>Go</button></form>'
        )

    def do_POST(self) -> None:
        site: Any = self.server.site
        given = {
            key: values[0]
            for key, values in parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode()).items()
        }
        if self.path not in FORMS:
            return self.answer("<title>Saved</title>")
        user, password, private = FORMS[self.path]
        site.requests.append(("POST", self.path))
        if (given.get(user), given.get(password)) != (ADA.name, ADA.password):
            return self.form(self.path)
        site.sessions.append(f"s{len(site.requests)}")
        headers = {"Location": private, "Set-Cookie": f"session={site.sessions[-1]}; Path=/"}
        return self.answer("", status=302, headers=headers)


@pytest.fixture
def shop() -> Iterator[Any]:
    with serving(Shop) as site:
        site.sessions = []  # type: ignore[attr-defined]
        yield site


@pytest.fixture(autouse=True)
def no_sites_around(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in SITES:
        monkeypatch.delenv(f"WA_{name.upper()}", raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    monkeypatch.delenv("WEBARENA_HOST", raising=False)
    monkeypatch.setenv("COEVO_CACHE", str(tmp_path / "cache"))


def logins_of(site: Any) -> int:
    return sum(command == "POST" for command, _ in site.requests)


class TestUrls:
    def test_from_the_options_then_the_environment(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("WA_SHOPPING", "http://a:7770/, http://b:7770")
        monkeypatch.setenv("REDDIT", "http://c:9999")
        monkeypatch.setenv("GITLAB", "http://not-this")
        assert site_urls({"gitlab": ["http://d:8023", "http://e:8023/"]}) == {
            "shopping": ("http://a:7770", "http://b:7770"),
            "reddit": ("http://c:9999",),
            "gitlab": ("http://d:8023", "http://e:8023"),
        }

    def test_from_one_host(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("WEBARENA_HOST", "http://my-host")
        monkeypatch.setenv("WA_MAP", "http://maps:3000")
        urls = site_urls()
        assert urls["shopping_admin"] == ("http://my-host:7780/admin",)
        assert urls["map"] == ("http://maps:3000",)
        assert set(urls) == set(SITES)

    @pytest.mark.parametrize(
        ("given", "says"),
        [
            ({"shop": "http://a"}, "there is no WebArena site 'shop'"),
            ({"reddit": "my-host:9999"}, "urls.reddit: 'my-host:9999' is no URL"),
        ],
    )
    def test_mistakes(self, given: dict[str, str], says: str) -> None:
        with pytest.raises(ConfigError, match=says):
            site_urls(given)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser():
    browser = Browser()
    yield browser
    await browser.close()


@pytest.mark.browser
@pytest.mark.asyncio(loop_scope="module")
class TestLogin:
    @pytest.mark.parametrize(
        ("name", "base"), [("shopping", ""), ("shopping_admin", "/admin"), ("reddit", ""), ("gitlab", "")]
    )
    async def test_each_kind_of_site(self, browser: Browser, shop: Any, name: str, base: str) -> None:
        state = await log_in(browser, name, f"{shop.url}{base}", ADA, timeout_s=20)
        assert [cookie["value"] for cookie in state["cookies"]] == shop.sessions
        assert logins_of(shop) == 1

    async def test_once_then_from_memory_then_from_disk(
        self, browser: Browser, shop: Any, tmp_path: Path
    ) -> None:
        logins = Logins(browser, directory=tmp_path)
        states = await asyncio.gather(*(logins.state("reddit", shop.url, ADA) for _ in range(4)))
        assert logins_of(shop) == 1
        assert all(state == states[0] for state in states)
        (file,) = tmp_path.iterdir()
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert await Logins(browser, directory=tmp_path).state("reddit", shop.url, ADA) == states[0]
        assert logins_of(shop) == 1

    async def test_a_stale_state_is_renewed(self, browser: Browser, shop: Any, tmp_path: Path) -> None:
        logins = Logins(browser, directory=tmp_path)
        old = await logins.state("gitlab", shop.url, ADA)
        shop.sessions.clear()
        assert await logins.state("gitlab", shop.url, ADA) == old  # checked a moment ago
        logins.forget("gitlab", shop.url)
        new = await logins.state("gitlab", shop.url, ADA)
        assert new != old
        assert [cookie["value"] for cookie in new["cookies"]] == shop.sessions

    async def test_an_unreadable_file_is_no_obstacle(
        self, browser: Browser, shop: Any, tmp_path: Path
    ) -> None:
        await Logins(browser, directory=tmp_path).state("reddit", shop.url, ADA)
        (file,) = tmp_path.iterdir()
        file.write_text("{")
        await Logins(browser, directory=tmp_path).state("reddit", shop.url, ADA)
        assert json.loads(file.read_text())["cookies"]

    async def test_a_refused_account(self, browser: Browser, shop: Any) -> None:
        with pytest.raises(WorldError, match="does not accept the account 'bob'") as caught:
            await log_in(browser, "shopping", shop.url, Account("bob", "x"), timeout_s=20)
        assert "COEVO_WEBARENA_SHOPPING_PASSWORD" in str(caught.value)

    async def test_a_site_that_is_down_and_one_without_login(self, browser: Browser) -> None:
        with pytest.raises(WorldError, match=r"reddit: logging in at .* failed: .*ERR_CONNECTION_REFUSED"):
            await log_in(browser, "reddit", unused_url(), ADA, timeout_s=20)
        with pytest.raises(ConfigError, match="there is no login for 'map'"):
            await log_in(browser, "map", unused_url(), ADA)

    async def test_a_lease_is_logged_in_where_the_task_says(
        self, browser: Browser, shop: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for name in ("SHOPPING", "REDDIT"):
            monkeypatch.setenv(f"COEVO_WEBARENA_{name}_USER", ADA.name)
            monkeypatch.setenv(f"COEVO_WEBARENA_{name}_PASSWORD", ADA.password)
        worlds = RealWorlds(
            {"shopping": [shop.url], "reddit": [shop.url], "wikipedia": [shop.url]},
            Logins(browser, directory=tmp_path),
        )
        assert (await worlds.lease(["shopping"], account="", writes=False)).storage_state is None
        only = await worlds.lease(["shopping", "reddit"], account="default@reddit", writes=False)
        assert only.storage_state is not None
        assert [cookie["value"] for cookie in only.storage_state["cookies"]] == shop.sessions
        assert (await worlds.lease(["wikipedia"], account="default", writes=False)).storage_state == {
            "cookies": [],
            "origins": [],
        }
        with pytest.raises(
            ConfigError, match=r"shopping and reddit share the cookie 'session' on the host 127\.0\.0\.1"
        ):
            await worlds.lease(["shopping", "reddit"], account="default", writes=False)
        with pytest.raises(ConfigError, match="the real sites have no account 'ada'"):
            await worlds.lease(["reddit"], account="ada", writes=False)
        shop.sessions.clear()
        Logins(browser, directory=tmp_path)
        assert [replica.users for replica in worlds.replicas["reddit"]] == [1]


def test_states_of_different_hosts_are_merged() -> None:
    def state(domain: str, value: str) -> dict[str, Any]:
        return {
            "cookies": [{"name": "session", "domain": domain, "path": "/", "value": value}],
            "origins": [domain],
        }

    merged = merge({"shopping": state("a", "1"), "reddit": state("b", "2")})
    assert [cookie["value"] for cookie in merged["cookies"]] == ["1", "2"]
    assert merged["origins"] == ["a", "b"]


class Lending:
    """`RealWorlds` with no logins, on sites that answer."""

    def __init__(self, url: str, copies: dict[str, int], **options: Any) -> None:
        urls = {site: [f"{url}/?{site}{number}" for number in range(count)] for site, count in copies.items()}
        options = {"health_timeout_s": 0.2, "sharing": 2} | options
        self.worlds = RealWorlds(urls, Logins(Browser()), **options)

    async def lease(self, *sites: str, writes: bool = False) -> Lease:
        return await self.worlds.lease(sites, account="", writes=writes)

    def waiting(self, *sites: str, writes: bool = False) -> asyncio.Future[Lease]:
        return asyncio.ensure_future(self.lease(*sites, writes=writes))

    async def back(self, lease: Lease, *, written: Sequence[str] = (), broken: bool = False) -> None:
        await self.worlds.give_back(lease, written=written, broken=broken)

    def copy(self, site: str = "reddit", number: int = 0) -> Replica:
        return self.worlds.replicas[site][number]


async def turn() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    with serving() as site:
        yield site


class TestLending:
    async def test_readers_share_a_copy_and_a_writer_has_one_to_itself(self, site: Site) -> None:
        lending = Lending(site.url, {"reddit": 2}, resets={"reddit": "true"})
        readers = [await lending.lease("reddit") for _ in range(2)]
        assert readers[0].urls == readers[1].urls
        writer = await lending.lease("reddit", writes=True)
        assert writer.urls != readers[0].urls
        waiting = lending.waiting("reddit")
        await turn()
        assert not waiting.done()
        await lending.back(readers[0])
        assert (await waiting).urls == readers[0].urls

    async def test_a_writer_that_wrote_nothing_costs_no_reset(self, site: Site, tmp_path: Path) -> None:
        log = tmp_path / "log"
        lending = Lending(site.url, {"reddit": 1}, resets={"reddit": f"echo reset >> {log}"})
        await lending.back(await lending.lease("reddit", writes=True))
        await lending.worlds.settled()
        assert not log.exists()

    async def test_what_was_written_is_reset_before_it_is_lent_again(
        self, site: Site, tmp_path: Path
    ) -> None:
        log, go = tmp_path / "log", tmp_path / "go"
        command = (
            f'until [ -e {go} ]; do sleep 0.01; done; echo "$COEVO_SITE $COEVO_REPLICA $COEVO_URL" >> {log}'
        )
        lending = Lending(site.url, {"reddit": 1, "gitlab": 1}, resets={"reddit": command, "gitlab": "false"})
        await lending.back(await lending.lease("reddit", "gitlab", writes=True), written=["reddit"])
        waiting = lending.waiting("reddit")
        assert await lending.lease("gitlab", writes=True)
        await asyncio.sleep(0.05)
        assert not waiting.done()
        go.touch()
        lease = await waiting
        assert log.read_text() == f"reddit 0 {lease.urls['reddit']}\n"

    async def test_a_copy_that_a_reader_wrote_to_is_reset_when_the_last_one_has_left(
        self, site: Site, tmp_path: Path
    ) -> None:
        log = tmp_path / "log"
        lending = Lending(site.url, {"reddit": 1}, resets={"reddit": f"echo reset >> {log}"})
        first, second = [await lending.lease("reddit") for _ in range(2)]
        await lending.back(first, written=["reddit"])
        waiting = lending.waiting("reddit")
        await turn()
        assert not waiting.done()
        assert not log.exists()
        await lending.back(second)
        await waiting
        assert log.read_text() == "reset\n"

    async def test_a_writer_that_waits_is_not_passed_over(self, site: Site) -> None:
        lending = Lending(site.url, {"reddit": 1, "gitlab": 1}, resets={"reddit": "true"})
        reader = await lending.lease("reddit")
        writer = lending.waiting("reddit", writes=True)
        late = lending.waiting("reddit")
        assert await lending.lease("gitlab")  # of another site: goes ahead
        await turn()
        assert not late.done()
        await lending.back(reader)
        lease = await writer
        assert not late.done()
        await lending.back(lease)
        assert await late

    async def test_several_sites_are_taken_together(self, site: Site) -> None:
        lending = Lending(site.url, {"reddit": 1, "gitlab": 1}, resets={"reddit": "true", "gitlab": "true"})
        one = await lending.lease("reddit", writes=True)
        both = lending.waiting("gitlab", "reddit", writes=True)
        await turn()
        assert lending.copy("gitlab").users == 0
        await lending.back(one)
        assert set((await both).urls) == {"gitlab", "reddit"}

    async def test_one_who_no_longer_waits_leaves_no_trace(self, site: Site) -> None:
        lending = Lending(site.url, {"reddit": 1}, resets={"reddit": "true"})
        writer = await lending.lease("reddit", writes=True)
        given_up, next_one = lending.waiting("reddit"), lending.waiting("reddit")
        await turn()
        given_up.cancel()
        await turn()
        await lending.back(writer)
        await next_one
        assert lending.copy().users == 1

    @pytest.mark.parametrize(
        ("command", "says"),
        [
            ("echo 'no space left'; exit 3", "its reset ended with status 3: no space left"),
            ("sleep 60", "its reset did not end within 0.3 s"),
        ],
    )
    async def test_a_reset_that_fails_takes_the_copy_out_of_service(
        self, site: Site, command: str, says: str
    ) -> None:
        only_first = f'[ "$COEVO_REPLICA" = 1 ] || {{ {command}; }}'
        lending = Lending(site.url, {"reddit": 2}, resets={"reddit": only_first}, reset_timeout_s=0.3)
        first, second = await lending.lease("reddit", writes=True), await lending.lease("reddit", writes=True)
        await lending.back(first, written=["reddit"])
        await lending.worlds.settled()
        assert (lending.copy(number=0).condition, lending.copy(number=0).problem) == ("down", says)
        await lending.back(second, written=["reddit"])
        assert (await lending.lease("reddit")).urls == second.urls

    async def test_none_left(self, site: Site) -> None:
        lending = Lending(site.url, {"reddit": 1}, resets={"reddit": "false"})
        lease = await lending.lease("reddit", writes=True)
        waiting = lending.waiting("reddit")
        await lending.back(lease, written=["reddit"])
        with pytest.raises(WorldError, match=r"no copy of reddit is left: .*: its reset ended with status 1"):
            await waiting
        with pytest.raises(WorldError, match="no copy of reddit is left"):
            await lending.lease("reddit")

    async def test_a_hung_reset_is_ended_with_all_it_started(self, site: Site, tmp_path: Path) -> None:
        pid = tmp_path / "pid"
        lending = Lending(
            site.url, {"reddit": 1}, resets={"reddit": f"sleep 60 & echo $! > {pid}; wait"}, reset_timeout_s=1
        )
        await lending.back(await lending.lease("reddit", writes=True), written=["reddit"])
        await lending.worlds.settled()
        assert lending.copy().condition == "down"
        assert not processes.alive(int(pid.read_text()))

    async def test_closing_ends_a_reset_under_way(self, site: Site, tmp_path: Path) -> None:
        pid = tmp_path / "pid"
        lending = Lending(site.url, {"reddit": 1}, resets={"reddit": f"echo $$ > {pid}; sleep 60"})
        await lending.back(await lending.lease("reddit", writes=True), written=["reddit"])
        while not (pid.exists() and pid.read_text()):
            await asyncio.sleep(0.01)
        await lending.worlds.close()
        assert not processes.alive(int(pid.read_text()))

    async def test_a_suspect_copy_is_looked_at(self, site: Site) -> None:
        lending = Lending(site.url, {"reddit": 1})
        await lending.back(await lending.lease("reddit"), broken=True)
        await lending.back(await lending.lease("reddit"))
        site.down["/"] = 503
        try:
            await lending.back(await lending.lease("reddit"), broken=True)
            with pytest.raises(WorldError, match=r"it does not answer: .* answered 503"):
                await lending.lease("reddit")
        finally:
            site.down.clear()

    async def test_a_site_that_cannot_be_put_back(self, site: Site) -> None:
        lending = Lending(site.url, {"reddit": 1, "wikipedia": 1})
        with pytest.raises(ConfigError, match="a task that writes to reddit needs a way to undo it"):
            await lending.lease("reddit", writes=True)
        assert await lending.lease("wikipedia", writes=True)
        with pytest.raises(ConfigError, match="the site map has no URL"):
            await lending.lease("map")
        drifting = Lending(site.url, {"reddit": 1}, drift=True)
        await drifting.back(await drifting.lease("reddit", writes=True), written=["reddit"])
        assert await drifting.lease("reddit", writes=True)

    async def test_size(self, site: Site) -> None:
        assert Lending(site.url, {"reddit": 3, "gitlab": 2}).worlds.size == 4


class TestTaskSet:
    @pytest.fixture
    def file(self, tmp_path: Path) -> str:
        """40 tasks of 20 templates, half of them on reddit."""
        path = tmp_path / "tasks.json"
        some = [
            config(
                task_id=number,
                intent_template_id=number // 2,
                intent_template=f"Find {number // 2}",
                sites=[("shopping", "reddit")[number % 4 // 2]],
            )
            for number in range(40)
        ]
        path.write_text(json.dumps(some))
        return str(path)

    def test_a_file_of_ones_own(self, file: str) -> None:
        made = tasks(file, split="template", dev=8, test=10, evaluator="webarena", dialect="webrl")
        sizes = [len(made.tasks(split)) for split in ("train", "dev", "test")]
        assert sizes == [22, 8, 10]
        task = made.tasks("test")[0]
        assert task.id == f"webarena/full/{task.data['config']['task_id']}"
        assert task.group in ("shopping", "reddit")
        assert made.options.dialect == "webrl"
        with pytest.raises(ConfigError, match="WebArena has no split 'held-out'"):
            made.tasks("held-out")

    def test_of_some_sites_only(self, file: str) -> None:
        made = tasks(file, split="template", dev=4, test=4, only_sites=["reddit"])
        assert {task.group for split in ("train", "dev", "test") for task in made.tasks(split)} == {"reddit"}
        assert len(made.tasks("test")) == 4

    def test_the_pool_needs_urls(self, file: str, monkeypatch: pytest.MonkeyPatch) -> None:
        made = tasks(file, split="template", dev=4, test=4)
        with pytest.raises(ConfigError, match="no URL for shopping, reddit") as caught:
            made.pool(2)
        assert "set WA_SHOPPING, WA_REDDIT" in str(caught.value)
        monkeypatch.setenv("WEBARENA_HOST", "my-host")
        pool = made.pool(2)
        assert isinstance(pool, WebPool)
        assert set(pool.worlds.replicas) == {"shopping", "reddit"}  # type: ignore[attr-defined]

    def test_writes_need_resets(self, tmp_path: Path) -> None:
        path = tmp_path / "tasks.json"
        checks = {
            "eval_types": ["program_html"],
            "reference_answers": None,
            "reference_url": "",
            "program_html": [{"url": "last", "locator": "", "required_contents": {"exact_match": "x"}}],
        }
        path.write_text(
            json.dumps(
                [
                    config(
                        task_id=number, intent_template_id=number, intent_template=f"Do {number}", eval=checks
                    )
                    for number in range(3)
                ]
            )
        )
        urls = {"shopping": "http://a:7770"}

        def made(**options: Any) -> BenchmarkTasks:
            return tasks(str(path), split="template", dev=1, test=1, urls=urls, **options)

        with pytest.raises(
            ConfigError, match="there are tasks that write to shopping, and no way to undo it"
        ):
            made().pool(1)
        assert made(resets={"shopping": "true"}).pool(1)
        assert made(drift=True).pool(1)

    @pytest.mark.parametrize(
        ("options", "says"),
        [
            ({"split": "random"}, "option split = 'random'"),
            ({"split": "reference"}, "the reference split tests on WebArena-Lite"),
            ({"test": -1}, "test = -1"),
            ({"only_sites": ["shop"]}, "there is no WebArena site 'shop'"),
            ({"urls": {"reddit": "nowhere"}}, "'nowhere' is no URL"),
            ({"resets": {"shop": "true"}}, "resets: there is no WebArena site 'shop'"),
            ({"sharing": 0}, "sharing = 0"),
            ({"reset_timeout_s": 0}, "no time at all"),
            ({"evaluator": "judge"}, "there is no evaluator 'judge'"),
            ({"dialct": "webrl"}, "unknown WebArena option 'dialct'"),
            ({"dialect": "html"}, "option dialect = 'html'"),
        ],
    )
    def test_mistakes(self, file: str, options: dict[str, Any], says: str) -> None:
        with pytest.raises(ConfigError, match=says):
            tasks(file, **({"split": "template", "dev": 4, "test": 4} | options))

    def test_without_the_public_files(self) -> None:
        with pytest.raises(ConfigError, match="is not there yet") as caught:
            tasks()
        assert "coevo webarena fetch" in str(caught.value)

    @pytest.mark.skipif(not DATA.is_dir(), reason="the public task files are not beside the repository")
    def test_the_published_split(self, tmp_path: Path) -> None:
        folder = tmp_path / "cache" / "webarena"
        folder.mkdir(parents=True)
        for file in DATA.glob("*.json"):
            (folder / file.name).symlink_to(file)
        with pytest.raises(ConfigError, match="needs a judge"):
            tasks()
        made = tasks(without_judge=True)
        assert [len(made.tasks(split)) for split in ("train", "dev", "test")] == [582 - 83, 65 - 3, 165 - 40]
        assert tasks(without_judge=True, test=5).tasks("test") == made.tasks("test")[:5]
        assert len({task.id for split in ("train", "dev", "test") for task in made.tasks(split)}) == 686


class TestCheckCommand:
    def run(self, *arguments: str) -> tuple[int, Any]:
        result = CliRunner().invoke(webarena, ["check", "--json", *arguments])
        assert isinstance(result.exception, SystemExit | None), result.exception
        return result.exit_code, json.loads(result.output)

    def test_nothing_is_there(self) -> None:
        code, rows = self.run()
        assert code == 1
        assert {row["name"] for row in rows} == {*SITES, "full tasks", "lite tasks"}
        assert rows[0]["problem"] == "no URL"
        assert rows[0]["next_step"].startswith("set WA_SHOPPING to its URL, or WEBARENA_HOST")
        assert rows[-1]["next_step"] == "get it: coevo webarena fetch"

    @pytest.mark.browser
    def test_sites_that_work_and_one_that_does_not(self, shop: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("WA_SHOPPING", f"{shop.url} {unused_url()}")
        monkeypatch.setenv("COEVO_WEBARENA_SHOPPING_USER", ADA.name)
        monkeypatch.setenv("COEVO_WEBARENA_SHOPPING_PASSWORD", ADA.password)
        code, (works, down) = self.run("--site", "shopping")
        assert code == 1
        assert (works["state"], works["login"], works["version"]) == ("ok", "ada", "Magento/2.4 (Community)")
        assert down["state"] == "failed"
        assert "does not answer" in down["problem"]
        monkeypatch.setenv("WA_SHOPPING", shop.url)
        assert self.run("--site", "shopping")[0] == 0

    def test_an_unknown_site(self) -> None:
        result = CliRunner().invoke(webarena, ["check", "--site", "shop"])
        assert isinstance(result.exception, ConfigError)


@pytest.mark.parametrize("name", ["lite", "verified"])
def test_the_experiments_have_the_papers_settings(name: str) -> None:
    experiment = load_experiment(ROOT / "webarena" / f"{name}.toml")
    es, sampling = experiment.es, experiment.sampling
    assert (es.generations, es.population, es.tasks_per_generation) == (70, 8, 8)
    assert (es.sigma, es.sigma_end, es.alpha, es.shaping, es.antithetic) == (
        1.5e-3,
        None,
        2.5e-4,
        "zscore",
        False,
    )
    assert (sampling.temperature, sampling.top_p, sampling.top_k) == (0.7, 0.8, 20)
    assert (sampling.presence_penalty, sampling.max_tokens) == (1.5, 2048)
    assert (experiment.agent.max_turns, experiment.seed) == (30, 20260605)
    assert experiment.find_target("agent.graph", experiment.agent.graph)
    assert (experiment.find("agent.skill", experiment.agent.skill) / "SKILL.md").is_file()
