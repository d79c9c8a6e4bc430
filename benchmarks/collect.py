"""`crowdmetric collect` under load, on loopback: how fast, what is lost, how large an export is.

::

    python -m benchmarks.collect load --people 2000 --seconds 30
    python -m benchmarks.collect kill --kills 200 --seconds 3000
    python -m benchmarks.collect export --answers 10000000

Clients and server share the machine. Server times are the server's own, from the first byte of a request read to the
reply made; what clients were told is compared with what the store holds afterwards.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import resource
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np
import uvloop

from crowdmetric.collect import Study, make_study, open_study
from crowdmetric.collect.folder import open_store
from crowdmetric.collect.places import random_places
from crowdmetric.collect.serving import prepare
from crowdmetric.collect.tokens import unsign
from crowdmetric.collect.visitor import Page, Visitor

ITEMS, QUESTIONS = 60, 60
PAUSE, SPREAD = 0.75, 0.25
# Seconds to wait for the last replies.
PATIENCE = 20.0


def new_study(folder: Path, people: int, questions: int = QUESTIONS) -> Study:
    """Return a study with a questionnaire of random pairs, so no design is computed."""
    rng = np.random.default_rng(0)
    rows = "".join(
        f"{i},Item number {i},{rng.standard_normal():.3f},{rng.standard_normal():.3f}\n" for i in range(ITEMS)
    )
    (folder / "items.csv").write_text(f"item_id,text,a,b\n{rows}", encoding="utf-8")
    place = make_study(folder / "items.csv", folder / "study")
    places = random_places([str(i) for i in range(ITEMS)], min(people, 200), questions, rng)
    lines = [f"{k},{a},{b}" for k, one in enumerate(places) for a, b in one.pairs]
    (place / "q.csv").write_text("person,left,right\n" + "\n".join(lines) + "\n", encoding="utf-8")
    text = (
        (place / "study.toml").read_text(encoding="utf-8").replace('kind = "optimal"', 'kind = "file"\nfile = "q.csv"')
    )
    for old, new in (
        ("people = 200", "people = 1000000"), ("evaluation = 0.1", "evaluation = 0"), ("repeats = 0.1", "repeats = 0"),
        ("starts_per_minute = 120", "starts_per_minute = 1000000"),
    ):  # fmt: skip
        text = text.replace(old, new)
    (place / "study.toml").write_text(text, encoding="utf-8")
    study = open_study(place)
    prepare(study)
    return study


class Server:
    """The real server as a process; `log` holds its lines."""

    def __init__(self, study: Study, port: int = 0) -> None:
        self.errors = (study.folder / "server.log").open("ab+")
        self.process = subprocess.Popen(
            [sys.executable, "-m", "crowdmetric", "collect", str(study.folder), "--port", str(port)],
            stdout=subprocess.PIPE, stderr=self.errors, text=True,
        )  # fmt: skip
        self.port = int(self.process.stdout.readline().rsplit(":", 1)[1].strip().strip("/"))

    def cpu(self) -> float:
        """Return the CPU seconds that it used so far, all its threads together."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        self.process.stdout.close()
        self.errors.close()

    def stop(self) -> dict:
        """End it by SIGTERM and return its last line, a summary."""
        self.process.terminate()
        self.process.wait(60)
        self.process.stdout.close()
        self.errors.seek(0)
        last = [line for line in self.errors.read().decode().splitlines() if '"event": "stopped"' in line][-1]
        self.errors.close()
        return json.loads(last)


def compare(study: Study, told: dict[tuple[str, int], str]) -> tuple[int, int, int]:
    """Return how many answers clients were told of, how many of them are lost or different, how many are double."""
    with sqlite3.connect(study.store) as db:
        stored: dict[tuple[str, int], str] = {}
        double = 0
        for person, position, choice in db.execute("SELECT person, position, choice FROM answer"):
            double += (person, position) in stored
            stored[person, position] = choice
    lost = sum(stored.get(key) != choice for key, choice in told.items())
    return len(told), lost, double


# ------------------------------------------------------------------------------------------------------------ load


class Answering(asyncio.Protocol):
    """Somebody who answers over and over, as cheaply as Python can: the clients share the machine with the server."""

    def __init__(self, cookies: dict[str, str], person: str, page: Page, number: int, crowd: Crowd) -> None:
        self.person, self.crowd, self.rng = person, crowd, random.Random(number)
        cookie = "; ".join(f"{name}={value}" for name, value in cookies.items())
        self.head = (
            f"POST /go HTTP/1.1\r\nHost: 127.0.0.1\r\nCookie: {cookie}\r\nX-Fragment: 1\r\n"
            "Content-Type: application/x-www-form-urlencoded\r\nContent-Length: "
        ).encode()
        self.position, self.asks, self.received = page.hidden["position"].encode(), page.asks, b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport
        self.later()

    def later(self) -> None:
        pause = self.rng.uniform(PAUSE - SPREAD, PAUSE + SPREAD)
        asyncio.get_running_loop().call_later(pause, self.answer)

    def answer(self) -> None:
        if time.monotonic() > self.crowd.until:
            self.transport.close()
            return
        self.choice = self.rng.choice(("left", "right"))
        body = b"position=%s&ms=700&choice=%s" % (self.position, self.choice.encode())
        self.sent = time.perf_counter()
        self.transport.write(b"%s%d\r\n\r\n%s" % (self.head, len(body), body))

    def data_received(self, data: bytes) -> None:
        self.received += data
        head, found, body = self.received.partition(b"\r\n\r\n")
        if not found or len(body) < int(head.rpartition(b"content-length: ")[2].partition(b"\r\n")[0]):
            return
        crowd, status = self.crowd, int(head[9:12])
        crowd.waits.append(time.perf_counter() - self.sent)
        crowd.seen[status] += 1
        self.received = b""
        following = body.partition(b'name="position" value="')[2].partition(b'"')[0]
        if status == 200 and following != self.position:
            if self.asks:
                crowd.told[self.person, int(self.position)] = self.choice
            self.position, self.asks = following, b"data-question" in body
        if following:
            self.later()
        else:
            self.transport.close()

    def connection_lost(self, error: Exception | None) -> None:
        if error is not None:
            self.crowd.seen[type(error).__name__] += 1
        self.crowd.left.discard(self.person)


@dataclass
class Crowd:
    """What the people of a load test were told, and until when they answer."""

    until: float = float("inf")
    told: dict[tuple[str, int], str] = field(default_factory=dict)
    waits: list[float] = field(default_factory=list)
    seen: Counter = field(default_factory=Counter)
    left: set[str] = field(default_factory=set)


async def _everybody(study: Study, port: int, people: int, seconds: float, cpu: Callable[[], float]) -> tuple:
    """Let everybody in, then let all of them answer at once; return the crowd, seconds and CPU seconds of that time."""
    entered = []
    gate = asyncio.Semaphore(32)

    async def enter() -> None:
        async with gate:
            visitor = Visitor("127.0.0.1", port)
            await visitor.post("/start", (await visitor.get("/")).hidden)
            page = await visitor.get("/go")
            page = await visitor.post("/go", page.hidden, fragment=True)  # the instructions
            await visitor.close()
            person = unsign(study.secret.signing, "person", next(iter(visitor.cookies.values())))
            entered.append((visitor.cookies, person, page))

    await asyncio.gather(*(enter() for _ in range(people)))
    crowd, loop = Crowd(left={person for _, person, _ in entered}), asyncio.get_running_loop()
    clock, used, mine = time.monotonic(), cpu(), time.process_time()
    crowd.until = clock + seconds
    for number, told in enumerate(entered):
        await loop.create_connection(partial(Answering, *told, number, crowd), "127.0.0.1", port)
    while crowd.left and time.monotonic() < crowd.until + PATIENCE:
        await asyncio.sleep(0.05)
    return crowd, time.monotonic() - clock, cpu() - used, time.process_time() - mine


def load(people: int, seconds: float) -> None:
    """People who answer every 0.75 ± 0.25 s."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    with tempfile.TemporaryDirectory() as folder:
        study = new_study(Path(folder), people, questions=round(2 * seconds / PAUSE) + 20)
        server = Server(study)
        crowd, took, used, mine = uvloop.run(_everybody(study, server.port, people, seconds, server.cpu))
        summary = server.stop()
        answers, lost, double = compare(study, crowd.told)
        asked, commits = people / PAUSE, summary["commits"]
        print(
            f"{people} people for {took:.0f} s, who would give {asked:.0f} answers per second: {answers} acknowledged "
            f"after commit ({answers / took:.0f} per second); server p50 {summary['p50_ms']} ms, p99 "
            f"{summary['p99_ms']} ms; clients waited p50 {1e3 * np.quantile(crowd.waits, 0.5):.1f} ms, p99 "
            f"{1e3 * np.quantile(crowd.waits, 0.99):.1f} ms; statuses {dict(crowd.seen)}; lost {lost}, doubled "
            f"{double}; CPU: server {1e6 * used / answers:.0f} µs per answer ({answers / used:.0f} answers per CPU "
            f"second, {100 * used / took:.0f} % of a core), clients {1e6 * mine / answers:.0f} µs; "
            f"{answers / commits:.1f} answers per commit; load average {os.getloadavg()[0]:.1f}",
            flush=True,
        )


# ------------------------------------------------------------------------------------------------------------ kill


class Stubborn:
    """Somebody who sends every answer until they are told that it was saved; some twice, some cut off."""

    def __init__(self, study: Study, port: int, number: int, told: dict) -> None:
        self.study, self.port, self.told, self.rng = study, port, told, random.Random(number)
        self.visitor, self.person, self.form = Visitor("127.0.0.1", port), "", None

    async def live(self, stop: asyncio.Event) -> None:
        while not stop.is_set():
            try:
                await self._step()
                await asyncio.sleep(self.rng.uniform(0.0, 0.02))
            except (TimeoutError, OSError, asyncio.IncompleteReadError, EOFError):
                await self.visitor.close()
                await asyncio.sleep(0.05)

    async def _step(self) -> None:
        if not self.person:
            await self.visitor.post("/start", (await self.visitor.get("/")).hidden)
            self.person = unsign(self.study.secret.signing, "person", next(iter(self.visitor.cookies.values()))) or ""
        if self.form is None:
            page = await self.visitor.get("/go")
            hidden, self.asked = page.hidden, page.asks
            if "position" not in hidden:  # too fast just now, or at the end
                await asyncio.sleep(0.2)
                return
            self.form = {**hidden, "choice": self.rng.choice(["left", "right"])}
        kind = self.rng.random()
        if kind < 0.05:
            await self._cut_off()
        elif kind < 0.10:
            twin = Visitor("127.0.0.1", self.port)
            twin.cookies = self.visitor.cookies
            both = [one.post("/go", self.form, True) for one in (self.visitor, twin)]
            ends = await asyncio.gather(*both, return_exceptions=True)  # neither is left behind when the other fails
            await twin.close()
            for end in ends:
                if isinstance(end, Exception):
                    raise end
        page = await self.visitor.post("/go", self.form, True)
        if page.status == 200 and page.hidden.get("position") != self.form["position"]:
            if self.asked:
                self.told[self.person, int(self.form["position"])] = self.form["choice"]
            self.asked = page.asks
            self.form = {**page.hidden, "choice": self.rng.choice(["left", "right"])} if page.asks else None
        else:
            await asyncio.sleep(0.1)

    async def _cut_off(self) -> None:
        """Send part or all of a request and hang up."""
        _, writer = await asyncio.open_connection("127.0.0.1", self.port)
        body = "&".join(f"{k}={v}" for k, v in self.form.items())
        cookie = "; ".join(f"{k}={v}" for k, v in self.visitor.cookies.items())
        request = (
            f"POST /go HTTP/1.1\r\nHost: x\r\nCookie: {cookie}\r\nContent-Type: application/x-www-form-urlencoded\r\n"
            f"Content-Length: {len(body)}\r\n\r\n{body}"
        )
        writer.write(request.encode()[: self.rng.randint(20, len(request))])
        with suppress(OSError):
            await writer.drain()
        writer.close()


async def _under_fire(study: Study, kills: int, people: int, seconds: float) -> tuple[dict, int, int, int]:
    rng = random.Random(1)
    server = Server(study)
    port, told, stop = server.port, {}, asyncio.Event()
    crowd = [Stubborn(study, port, k, told) for k in range(people)]
    tasks = [asyncio.create_task(one.live(stop)) for one in crowd]
    end, done = time.monotonic() + seconds, 0
    while done < kills and time.monotonic() < end:
        done += 1
        # under load, however slow the machine: after so many more answers, at the latest after ten seconds
        wanted, latest = len(told) + rng.randint(1, 80), time.monotonic() + 10.0
        while len(told) < wanted and time.monotonic() < latest:
            await asyncio.sleep(0.005)
        server.kill()
        server = await asyncio.to_thread(Server, study, port)
    await asyncio.sleep(1.5)
    stop.set()
    await asyncio.gather(*tasks)
    resumed = 0
    for one in crowd:
        await asyncio.sleep(0.01)
        page = await one.visitor.get("/go")
        resumed += page.status == 200 and (page.asks or "Thank you" in page.text)
        await one.visitor.close()
    server.stop()
    return told, resumed, len(crowd), done


def kill(kills: int, seconds: float, people: int = 40) -> None:
    """Kill -9 at random moments, with 5 % of answers sent twice and 5 % cut off; at most so often and so long."""
    with tempfile.TemporaryDirectory() as folder:
        study = new_study(Path(folder), people, questions=300)
        clock = time.perf_counter()
        told, resumed, everybody, done = asyncio.run(_under_fire(study, kills, people, seconds))
        answers, lost, double = compare(study, told)
        with sqlite3.connect(study.store) as db:
            sound = db.execute("PRAGMA integrity_check").fetchone()[0]
        print(
            f"{done} × kill -9 in {time.perf_counter() - clock:.0f} s: {answers} answers acknowledged, {lost} lost, "
            f"{double} doubled, {resumed} of {everybody} people resumed, integrity {sound}",
            flush=True,
        )


# ---------------------------------------------------------------------------------------------------------- export


def _peak(code: str) -> tuple[str, int]:
    """Run a line of Python in a process of its own; return what it prints and its peak memory in MB."""
    # not ru_maxrss, which begins at the memory of the process that started this one
    line = f"{code}\nprint(open('/proc/self/status').read().split('VmHWM:')[1].split()[0])"
    done = subprocess.run([sys.executable, "-c", line], capture_output=True, text=True, check=True)
    *said, peak = done.stdout.split()
    return " ".join(said), int(peak) // 1024


async def _answer_until(study: Study, port: int, stop: asyncio.Event, told: dict, people: int = 10) -> None:
    """Let some people answer until told to stop."""
    crowd = [Stubborn(study, port, k, told) for k in range(people)]
    await asyncio.gather(*(one.live(stop) for one in crowd))
    for one in crowd:
        await one.visitor.close()


async def _meanwhile(study: Study, port: int, code: str, told: dict) -> tuple[str, int]:
    """Run a line of Python in a process of its own while people answer."""
    stop = asyncio.Event()
    answering = asyncio.create_task(_answer_until(study, port, stop, told))
    try:
        return await asyncio.to_thread(_peak, code)
    finally:
        stop.set()
        await answering


def export(answers: int) -> None:
    """Export a large store to Parquet, and find what it teaches, while people answer."""
    with tempfile.TemporaryDirectory() as folder:
        study = new_study(Path(folder), 10, questions=1000)
        open_store(study).close()
        sides = [("left", "right")[k % 2] for k in range(1000)]
        with sqlite3.connect(study.store) as db:
            db.execute("PRAGMA synchronous = OFF")
            db.executemany(
                "INSERT INTO answer (person, position, left_item, right_item, choice, purpose, response_ms, shown,"
                " answered, version, place) VALUES (?, ?, ?, ?, ?, 'design', ?, ?, ?, 1, 0)",
                ((f"{k // 20:024x}", k % 20, str(k % 59), "59", sides[k % 1000], k % 3000, 1.7e9 + k, 1.7e9 + k + 1)
                 for k in range(answers)),
            )  # fmt: skip
        server, told = Server(study), {}
        out = Path(folder) / "answers.parquet"
        clock = time.perf_counter()
        command = f"['collect', 'export', {str(study.folder)!r}, '--out', {str(out)!r}, '--quiet']"
        code, peak = asyncio.run(
            _meanwhile(study, server.port, f"from crowdmetric.cli import main; print(main({command}))", told)
        )
        took, during = time.perf_counter() - clock, len(told)
        imports = _peak("import crowdmetric.commands.collect, pyarrow.parquet")[1]
        counting = (
            "from pathlib import Path; from crowdmetric.collect.counting import Counts, answers_by_person;"
            "from crowdmetric.collect.folder import open_reader, open_study;"
            f"study = open_study(Path({str(study.folder)!r}));"
            "db = open_reader(study); c = Counts(study.settings.careless)\n"
            "for person, rows in answers_by_person(db): c.add(db, person, rows)\n"
            "print(c.answers)"
        )
        cpu = resource.getrusage(resource.RUSAGE_CHILDREN)
        counted, peak_of_counts = asyncio.run(_meanwhile(study, server.port, counting, told))
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        seconds = after.ru_utime + after.ru_stime - cpu.ru_utime - cpu.ru_stime
        summary = server.stop()
        _, lost, double = compare(study, told)
        print(
            f"{answers} answers exported in {took:.0f} s (exit {code}) to {out.stat().st_size / 1e6:.0f} MB; peak "
            f"memory {peak} MB, of which {imports} MB are the imports; {during} answers were saved meanwhile; "
            f"{counted} answers counted for the researcher's page with {peak_of_counts} MB and {seconds:.0f} CPU s; "
            f"lost {lost}, doubled {double}; server p50 {summary['p50_ms']} ms, p99 {summary['p99_ms']} ms",
            flush=True,
        )


def main() -> None:
    """Run all three for a short while; each has options on its own command line."""
    load(300, 15.0)
    kill(5, 120.0)
    export(500_000)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m benchmarks.collect", description=__doc__)
    parser.add_argument("what", choices=["load", "kill", "export"])
    parser.add_argument("--people", type=int, default=2000)
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--answers", type=int, default=10_000_000)
    options = parser.parse_args()
    if options.what == "load":
        load(options.people, options.seconds)
    elif options.what == "kill":
        kill(options.kills, options.seconds)
    else:
        export(options.answers)
