#!/usr/bin/env python3
"""Writes transfers of `carob`: events of random paths, and the decisions that a controller must take.

    python3 windows.py [COUNT [FIRST]]

The controller is written down here a second time, in whole microseconds and bytes: first from its specification
(docs/algorithms.md#carob), then corrected with it where both differed from the first implementation.
`crates/cc/tests/it/windows.rs` replays the events, one in a line, through the implementation:

    script NUMBER DRAW                          a new controller; draws are DRAW / 2^32 of the way up
    send T ID RUNNING SIZE MORE TIMER           MORE: another message waits
    lost T ID timer|gap SILENT                  a transmission is presumed lost
    again T ID timer|gap SILENT MORE TIMER      and sent again
    gone T ID                                   and sent as another message, or reported by the answer before
    fail T ID                                   given up
    answer T ID EARLIEST LATEST SIZE ALSO RECENT
                                                ALSO: bytes of other messages that it reports (RFC 9177); RECENT: those
                                                sent after the message that the report before named
    late T SENT SINCE                           an answer to an exchange that was given up
    slow T                                      4.29 or 5.03
    state T ROOM DEPARTURE THRESHOLD TIMEOUT REPAIRS
                                                room of the window, departure of the next message, gap rule and timeout of
                                                the path (- while the window is not used)
"""

import random
import sys
from heapq import heappop, heappush

SECOND = 1_000_000
ACK_TIMEOUT, ACK_MAX = 2 * SECOND, 3 * SECOND
SPAN = 45 * SECOND
CAP = 60 * SECOND
PERIOD = 60 * SECOND
MAX_RETRANSMIT = 4
REPAIRS = 2
SLOW_START, DELAY, COMPETE = "slow start", "delay", "compete"


def nearest(numerator, denominator):
    """Rounded to the nearest whole number, halves up."""
    return (2 * numerator + denominator) // (2 * denominator)


class Round:
    """A round: `turn` is the number of answers before it, so a message sent later has seen it begin."""

    def __init__(self, began=0, answers=0):
        self.began, self.answers = began, answers
        self.delivered = self.lost = self.greatest = 0
        self.least = None
        self.full = False


class Carob:
    def __init__(self, fraction):
        self.fraction = fraction
        # The path.
        self.srtt = self.rttvar = self.latest = None
        self.least, self.greatest, self.rates = [None, None], [0, 0], [0, 0]
        self.period = None
        # Single exchanges.
        self.kept, self.slow = 0, False
        self.sent = self.heard = 0
        # The window.
        self.w = self.m = 0
        self.phase, self.limit = SLOW_START, None
        self.in_use = False
        self.answers, self.reports = 0, False
        self.round, self.rounds = Round(), 0
        self.best = [0, 0, 0, 0]
        self.hold = self.low = self.shared = self.quiet = 0
        self.usual = self.judged = self.judged_lost = 0
        self.three = []
        self.standing, self.swing = 0, [(None, 0), (None, 0)]
        # Timeouts of the path.
        self.b, self.stepped, self.second = 0, None, False
        self.silences, self.silent_at = 0, None
        self.departs = 0

    def draw(self, low, high):
        return low + ((high - low + 1) * self.fraction >> 32)

    # -- the path

    @property
    def base(self):
        return min(value for value in self.least if value is not None)

    @property
    def top(self):
        return max(self.greatest)

    @property
    def capacity(self):
        return max(self.rates)

    def sample(self, now, r):
        if self.srtt is None:
            self.srtt, self.rttvar, self.period = r, r // 4, now
            self.least[0] = r
        else:
            self.rttvar = nearest(3 * self.rttvar + abs(self.srtt - r), 4)
            self.srtt = nearest(7 * self.srtt + r, 8)
        self.latest = r
        self.least[0] = min(self.least[0], r)
        self.greatest[0] = max(self.greatest[0], r)

    def rto(self):
        return max(self.srtt + max(4 * self.rttvar, self.srtt // 4, 1000), self.latest + self.latest // 4)

    def room(self):
        """Messages that the window has room for; one before it opens."""
        return max((self.w + self.m // 16) // self.m, 1) if self.m else 1

    def path(self, doublings):
        r = max(self.srtt, self.latest)
        r += r // self.room()
        rto = max(self.rto(), r + r // 4)
        return min(rto << doublings, max(rto, CAP))

    def timeout_of_path(self):
        """The path's timeout in the rule of timeouts."""
        return self.path(self.b - 1 if self.second else self.b)

    def threshold(self):
        r = max(self.srtt, self.latest)
        return max(nearest(9 * r, 8), self.srtt + 3 * self.rttvar, r + 1000)

    # -- timers

    def first_timer(self, now, running):
        idle = now - max(self.sent, self.heard)
        rto = None if self.srtt is None else self.rto()
        if running == 0:
            self.three = []
            if rto is not None:
                pause = now - self.sent > 4 * rto
                self.in_use = self.in_use and not pause and self.w < 2 * self.m
                if pause and self.phase != SLOW_START:
                    self.phase, self.limit = SLOW_START, self.w
                    self.w = min(self.w, 4 * self.m)
                self.kept = max(self.kept - idle // rto, 0)
        room = self.room()
        if (room > 1 or self.in_use) and running + 1 >= room:
            self.round.full = True
        self.in_use = self.in_use or self.round.full
        if self.in_use and rto is not None:
            return min(self.path(self.b), CAP)
        if rto is not None and self.top > 4 * self.base:
            rto = max(rto, ACK_TIMEOUT)
        low = ACK_TIMEOUT if rto is None else rto
        drawn = self.draw(low, nearest(3 * low, 2))
        timer = min(drawn << self.kept, max(drawn, CAP), CAP)
        if self.kept and not self.slow:
            timer = min(timer, max(drawn, self.draw(ACK_TIMEOUT, ACK_MAX)))
        if running == 0 and rto is not None and idle > 2 * ACK_TIMEOUT:
            timer = min(timer, self.draw(ACK_TIMEOUT, ACK_MAX))
        return timer

    def next_timer(self, timer, reason):
        rto = None if self.srtt is None else self.rto()
        if reason == "gap":
            timer = max(timer, rto or 0)
        elif rto is None:
            timer = 2 * timer
        else:
            timer = max(2 * timer, rto if self.in_use else self.draw(ACK_TIMEOUT, ACK_MAX))
        return min(timer, CAP)

    # -- departures

    def on_sent(self, now, more):
        self.sent = now
        if more and self.rounds > 0:
            self.round.full = True
        if self.srtt is not None and self.paced():
            gap = self.gap()
            departs = max(self.departs, now - gap) + gap
            self.departs = min(departs, now + max(self.srtt, gap))

    def paced(self):
        return self.reports or (self.rounds >= 2 and self.in_use)

    def departure(self, now):
        return max(self.departs, now) if self.paced() else now

    def gap(self):
        gap = self.srtt * self.m // max(self.w, 1)
        if self.w >= self.m:
            gap = gap // 2 if self.phase == SLOW_START else gap * 4 // 5
        if self.capacity:
            gap = max(gap, nearest(5 * (self.m * SECOND // self.capacity), 6))
        return min(gap, max(self.srtt, CAP))

    # -- losses

    def on_lost(self, now, reason, silent):
        self.round.lost += self.m
        if reason == "gap":
            return
        srtt = self.srtt or 0
        if self.in_use and (self.b == 0 or now - self.stepped >= srtt):
            self.b = min(self.b + 1, 12)
            self.stepped = now
            self.second = self.b >= 3
        else:
            self.second = False
        if silent and not (self.silences and now - self.silent_at < srtt):
            self.silences, self.silent_at = self.silences + 1, now
            if self.silences >= 2 and self.w > self.m:
                self.phase, self.limit = SLOW_START, max(self.w // 2, 2 * self.m)
                self.w = self.m

    def on_failed(self, retransmissions):
        self.kept = min(self.kept + retransmissions, 6)

    def on_late(self, now, since):
        if self.in_use and self.srtt is not None and since > self.srtt:
            self.sample(now, since)

    def on_slow(self):
        self.w = max(self.w // 2, self.m)
        if self.phase == SLOW_START:
            self.phase = DELAY

    # -- answers

    def on_answer(self, now, copies, seen, earliest, latest, size, also=0, recent=0):
        self.heard = now
        last = len(copies) - 1
        self.silences = 0
        if earliest != latest:
            self.answers += 1
            self.round.delivered += size[1] + also
            since = now - copies[latest]
            if not self.in_use:
                self.kept = min(self.kept + last, 6)
                if self.srtt is None or since > self.rto():
                    self.slow = True
            elif self.srtt is not None and since > self.srtt:
                self.sample(now, since)
            return
        back = (last - latest) * self.m
        self.round.lost = max(self.round.lost - back, 0)
        self.judged_lost = max(self.judged_lost - back, 0)
        r = max(now - copies[latest], 1)
        self.sample(now, r)
        self.kept, self.slow = 0, False
        self.b, self.second = 0, False
        if self.phase != COMPETE and now - self.period > PERIOD:
            self.period = now
            self.least = [self.latest, self.least[0]]
            self.greatest = [self.latest, self.greatest[0]]
            self.rates = [0, self.rates[0]]
        size = max(size)
        self.m = max(size, self.m - self.m // 8)
        self.answers += 1
        turn = self.round
        turn.delivered += size + also
        turn.least = r if turn.least is None else min(turn.least, r)
        turn.greatest = max(turn.greatest, r)
        self.rate_of_answers(now, copies[latest], size, also, recent)
        if self.w == 0:
            self.w = (2 if self.near(r) else 6) * self.m
        elif not self.in_use:
            self.w = max(self.w, 2 * self.m)
        if also and not self.reports:
            self.reports = True
            self.w = max(self.w, 2 * (size + also))
        if self.phase == SLOW_START:
            self.start_slowly(size + also, r)
        if seen[latest] >= turn.answers:
            self.end_round(now)

    def rate_of_answers(self, now, sent, size, also, recent):
        self.three = (self.three + [(now, sent, size + also)])[-3:]
        if also and len(self.three) > 1:
            before, sent_before, _ = self.three[-2]
            if now > before and sent >= sent_before:
                if 4 * (now - before) >= 5 * (sent - sent_before) and recent > size:
                    self.rates[0] = max(self.rates[0], (size + recent) * SECOND // (now - before))
                return
        if len(self.three) < 3:
            return
        (t1, s1, _), (_, _, b2), (t3, s3, b3) = self.three
        if t3 > t1 and s3 >= s1 and 2 * (s3 - s1) <= self.srtt and 4 * (t3 - t1) >= 5 * (s3 - s1):
            self.rates[0] = max(self.rates[0], (b2 + b3) * SECOND // (t3 - t1))

    # -- the window

    @staticmethod
    def near(time):
        return SECOND <= time < 3 * SECOND

    def target(self):
        base = self.base
        share = base // 4
        if self.near(base + share):
            share = min(share, max(SECOND - base, share // 4))
        message = self.m * SECOND // self.capacity if self.capacity else 0
        return max(share, message, 10_000)

    def scaled(self):
        target = self.target()
        if not self.capacity:
            return target
        half = target // 2
        return min(half + half * self.pipe() // max(self.w, self.m), nearest(5 * target, 2))

    def pipe(self):
        return self.capacity * self.base // SECOND

    def start_slowly(self, size, r):
        turn, m = self.round, self.m
        if turn.full:
            self.w += size // 2 if self.reports else size
        if self.rounds == 0:
            return
        ends = [self.pipe() + m] if self.capacity else []
        limits = [] if self.reports else ends
        limit = min(limits + ([self.limit] if self.limit is not None else []), default=None)
        if limit is not None and self.w >= limit:
            self.w = max(limit, 2 * m)
            self.phase = DELAY
        if turn.full and r > self.base + (1 if self.reports else 2) * self.target():
            if self.reports:
                ends = [end + end // 4 for end in ends]
                self.hold = 2
            self.w = max(min([self.w] + ends), 2 * m)
            self.phase = DELAY

    def end_round(self, now):
        turn = self.round
        self.rounds += 1
        if turn.full:
            self.count(turn, max(now - turn.began, 1))
        self.round = Round(now, self.answers)

    def count(self, turn, time):
        m, base = self.m, self.base
        self.best[self.rounds % 4] = turn.delivered
        if self.rates[0] and turn.delivered >= 2 * m:
            self.rates[0] = max(self.rates[0], turn.delivered * SECOND // time)
        c = self.capacity
        rate = (turn.delivered + turn.lost) * SECOND // time
        unknown = not c and (base >= 3 * SECOND or turn.least > base + self.target())
        below = self.phase != SLOW_START and rate < nearest(c, 2)
        self.shared = min(self.shared + 1, 8) if self.phase != COMPETE and (unknown or below) else 0
        self.quiet = 0 if turn.lost else self.quiet + turn.delivered
        self.compete(turn, 32 * rate > c > 0)
        if self.phase == COMPETE:
            if 32 * turn.lost <= turn.delivered:
                self.w += m
            elif not self.hold:
                self.w -= self.w // 16 * 5
                self.hold = 2
        elif self.phase == DELAY:
            self.delay(turn)
        if self.phase != SLOW_START:
            self.hold = max(self.hold - 1, 0)
        self.losses(turn)
        if self.rounds > 4:
            self.w = min(self.w, 2 * max(self.best) + 2 * m)
        self.w = max(self.w, m // 16 if self.in_use else 2 * m)

    def compete(self, turn, few):
        base, least = self.base, turn.least
        low, high = self.swing[0]
        self.swing[0] = least if low is None else min(low, least), max(high, least)
        if self.rounds % 16 == 0:
            self.swing = [(least, least), self.swing[0]]
        lows = [low for low, _ in self.swing if low is not None]
        swing = max(high for _, high in self.swing) - min(lows)
        self.standing = self.standing + 1 if least > 2 * base else 0
        if self.phase != COMPETE:
            if few and self.standing >= 3 and not self.near(least) and swing > base // 2:
                self.phase, self.hold = COMPETE, 0
                share = nearest(5 * (self.capacity * least // SECOND), 8)
                self.w = max(self.w, min(share, 2 * max(self.best)))
        elif least < base + base // 2 or swing < base // 3:
            self.phase = DELAY
            if self.capacity:
                self.w = min(self.w, max(self.pipe(), 2 * self.m))

    def delay(self, turn):
        m, base, t = self.m, self.base, self.scaled()
        q = turn.least - base
        if q > t:
            self.low = 0
            deep = turn.least > 2 * (base + t)
            room = 1 if deep and self.quiet < 8 * m else 2
            if self.w <= room * m:
                if not turn.lost:
                    self.w = min(self.w + (m // 2 if room == 2 else self.w // 8), room * m)
                self.hold = 0
            elif not self.hold:
                drained = self.w * (base + t // 4) // turn.least
                self.w = min(self.w, max(drained, room * m, self.w // 2))
                self.hold = 2
        elif self.w < 2 * m:
            if not turn.lost:
                self.w += m // 4
        elif self.shared >= 2:
            self.w += max(self.w // 16, 1)
        else:
            self.low = self.low + 1 if q < t // 2 else 0
            self.w += max(self.w // 8, m) if self.low >= 3 else m

    def losses(self, turn):
        m, base = self.m, self.base
        self.judged += turn.delivered + turn.lost
        self.judged_lost += turn.lost
        lost, judged = self.judged_lost, self.judged
        if judged >= 16 * m:
            self.judged = self.judged_lost = 0
        elif lost < 2 * m:
            return
        share = lost * 255 // judged
        t = self.scaled()
        stands = (turn.least > base + t and turn.greatest > base + 2 * t) or (
            self.top > base + self.target() // 2 and turn.least > base + (self.top - base) // 2
        )
        if not stands and self.shared < 2:
            self.usual = (7 * self.usual + share + 7) // 8
        elif share > 2 * self.usual + 16 and self.phase != COMPETE:
            self.phase = DELAY
            self.w = max(self.w // 2, 0 if stands else min(self.w, m))
            self.judged = self.judged_lost = 0
            self.hold = 2


# ---------------------------------------------------------------------------------------------
# A transfer over a path


class Message:
    def __init__(self, number):
        self.number = number
        self.copies, self.seen = [], []
        self.timer = 0
        self.repairs = 0
        self.repairs_now = 0


class Transfer:
    """One sender with messages for one peer; the answers pass a bottleneck."""

    def __init__(self, number, out):
        self.draw = random.Random(number)
        draw = self.draw
        fraction = draw.choice([0, 1 << 31, draw.getrandbits(32), (1 << 32) - 1])
        self.out = out
        self.controller = Carob(fraction)
        self.size = draw.randrange(12, 60)
        self.answer = draw.choice([64, 128, 256, 512, 1024]) + draw.randrange(40)
        self.base = int(10 ** draw.uniform(3.5, 6.6))
        self.messages = draw.choice([1.5, 4, 10, 30])
        self.rate = max(int(self.answer * self.messages * SECOND / self.base), 40)
        self.buffer = draw.choice([2, 4, 8, 16, 64]) * self.answer
        self.loss = draw.choice([0, 0, 0.01, 0.05, 0.1, 0.2])
        self.jitter = draw.choice([0, 0, self.base // 10, self.base // 2])
        self.tagged = draw.random() < 0.8
        self.report = draw.choice([1, 1, 1, 4, 10])
        self.arrived = []
        self.reported = -1
        self.left = draw.choice([60, 150, 300])
        self.free = self.held = 0
        self.flying = {}
        self.ended = {}
        self.events = []
        self.sequence = 0
        self.next = 0
        self.answered_departure = -1
        self.waiting = 0
        self.heard = -1
        self.turn = None
        print("script", number, fraction, file=out)

    def later(self, at, what, *data):
        self.sequence += 1
        heappush(self.events, (at, self.sequence, what, data))

    def say(self, *words):
        print(*words, file=self.out)

    def state(self, now):
        c = self.controller
        used = c.in_use and c.srtt is not None
        window = (c.threshold(), c.timeout_of_path(), REPAIRS) if used else ("-", "-", "-")
        self.say("state", now, c.room() if c.w else "-", c.departure(now), *window)

    def run(self):
        draw = self.draw
        at = 0
        while self.left > 0:
            amount = min(self.left, draw.choice([1, 3, 20, 150, 300]))
            self.later(at, "work", amount)
            self.left -= amount
            at += int(self.base * 10 ** draw.uniform(0, 2.5))
        for _ in range(draw.choice([0, 0, 1, 2])):
            self.later(draw.randrange(max(at, 1)), "path", 10 ** draw.uniform(-1, 0.5), draw.uniform(0.5, 3))
        if draw.random() < 0.2:
            self.later(draw.randrange(max(at, 1)), "slow")
        if draw.random() < 0.15:
            begins = draw.randrange(max(at, 1))
            self.later(begins, "loss", 1)
            self.later(begins + int(SECOND * 10 ** draw.uniform(0, 2.3)), "loss", self.loss)
        if draw.random() < 0.1:
            self.later(draw.randrange(max(at, 1)), "hold", int(SECOND * 10 ** draw.uniform(0, 2.3)))
        if draw.random() < 0.25:
            self.later(draw.randrange(max(at, 1)), "rival", draw.randrange(20, 400), 0)
        while self.events and self.next < 1000:
            now, _, what, data = heappop(self.events)
            getattr(self, "on_" + what)(now, *data)
            self.pump(now)

    def on_work(self, now, amount):
        self.waiting += amount

    def on_path(self, now, rate, base):
        self.rate = max(int(self.rate * rate), 40)
        self.base = int(self.base * base)

    def on_loss(self, now, loss):
        self.loss = loss

    def on_hold(self, now, time):
        """Answers wait so long on the way."""
        self.held = now + time

    def on_rival(self, now, packets, sent):
        """Another sender fills the queue and lets it drain, over and over."""
        if sent == packets:
            return
        queued = max(self.free - now, 0) * self.rate // SECOND
        if queued < self.buffer and sent % 25 < 18:
            self.free = max(self.free, now) + self.answer * SECOND // self.rate
        self.later(now + self.answer * SECOND * 3 // (self.rate * 4), "rival", packets, sent + 1)

    def on_slow(self, now):
        self.controller.on_slow()
        self.say("slow", now)
        self.state(now)

    def on_wake(self, now):
        pass

    def pump(self, now):
        c = self.controller
        while self.waiting and (not self.flying or len(self.flying) < c.room()):
            departs = c.departure(now)
            if departs > now:
                return self.later(departs, "wake")
            self.waiting -= 1
            message = Message(self.next)
            self.next += 1
            message.timer = max(c.first_timer(now, len(self.flying)), 200_000)
            more = int(self.waiting > 0)
            self.say("send", now, message.number, len(self.flying), self.size, more, message.timer)
            self.flying[message.number] = message
            self.transmit(now, message)
            self.state(now)

    def transmit(self, now, message):
        message.seen.append(self.controller.answers)
        self.controller.on_sent(now, self.waiting > 0)
        message.copies.append(now)
        self.look(now, message)
        if self.draw.random() < self.loss:
            return
        arrives = now + self.base // 2
        queued = max(self.free - arrives, 0) * self.rate // SECOND
        if queued + self.answer > self.buffer + self.answer:
            return
        self.free = max(self.free, arrives) + self.answer * SECOND // self.rate
        if self.draw.random() < self.loss:
            return
        lag = self.draw.randrange(self.jitter) if self.jitter else 0
        arrival = max(self.free + self.base // 2, self.held) + lag
        self.later(arrival, "arrival", message.number, len(message.copies) - 1)

    def look(self, now, message):
        c = self.controller
        timer = max(message.timer, c.timeout_of_path() if c.in_use and c.srtt is not None else 0)
        self.later(message.copies[-1] + timer, "timer", message.number, len(message.copies))
        if c.in_use and c.srtt is not None:
            self.later(max(message.copies[-1] + c.threshold(), now), "gap", message.number, len(message.copies))

    def on_timer(self, now, number, copies):
        message = self.flying.get(number)
        if message is None or len(message.copies) != copies:
            return
        c = self.controller
        if c.in_use and c.srtt is not None:
            due = message.copies[-1] + max(message.timer, c.timeout_of_path())
            if now < due:
                return self.later(due, "timer", number, copies)
            message.timer = max(message.timer, c.timeout_of_path())
        self.repeat(now, message, "timer")

    def on_gap(self, now, number, copies):
        message = self.flying.get(number)
        c = self.controller
        if message is None or len(message.copies) != copies or not c.in_use or message.repairs_now >= REPAIRS:
            return
        sent = message.copies[-1]
        if now >= sent + max(message.timer, c.timeout_of_path()):
            return
        if self.answered_departure > sent and now >= sent + c.threshold():
            self.repeat(now, message, "gap")

    def repeat(self, now, message, reason):
        c = self.controller
        silent = int(self.heard <= message.copies[-1])
        c.on_lost(now, reason, silent)
        self.say("lost", now, message.number, reason, silent)
        if self.report > 1:
            del self.flying[message.number]
            self.waiting += 1
            self.say("gone", now, message.number)
            return self.state(now)
        retransmissions = len(message.copies) - 1
        timeouts = retransmissions - message.repairs
        age = now - message.copies[0]
        if retransmissions >= 12 or not (reason == "gap" or timeouts < MAX_RETRANSMIT or age < SPAN):
            self.say("fail", now, message.number)
            c.on_failed(retransmissions)
            del self.flying[message.number]
            self.ended[message.number] = message
            return self.state(now)
        if reason == "gap":
            message.repairs += 1
            message.repairs_now += 1
        else:
            message.repairs_now = 0
        before = message.timer
        message.timer = max(c.next_timer(before, reason), before)
        if retransmissions + 1 >= MAX_RETRANSMIT and 3 * age < 2 * SPAN <= 2 * (age + message.timer):
            message.timer = min(max(SPAN - age - 1, before), message.timer)
        self.say("again", now, message.number, reason, silent, int(self.waiting > 0), message.timer)
        self.transmit(now, message)
        self.state(now)

    def on_arrival(self, now, number, copy):
        self.heard = now
        if self.report > 1:
            self.arrived = [one for one in self.arrived if one in self.flying]
            if number not in self.flying:
                return
            self.arrived.append(number)
            if len(self.arrived) == 1:
                self.later(now + self.base // 4, "report", number)
            if len(self.arrived) < self.report:
                return
        self.reply(now, number, copy)

    def on_report(self, now, number):
        if number in self.arrived and number in self.flying:
            self.heard = now
            self.reply(now, [one for one in self.arrived if one in self.flying][-1], 0)

    def reply(self, now, number, copy):
        c = self.controller
        message = self.flying.pop(number, None)
        if message is None:
            if number in self.ended:
                message = self.ended.pop(number)
                c.on_late(now, now - message.copies[0])
                self.say("late", now, len(message.copies), now - message.copies[0])
                self.state(now)
            return
        others = [self.flying.pop(one) for one in self.arrived if one in self.flying]
        self.arrived = []
        also = sum(self.answer for _ in others)
        recent = sum(self.answer for one in others if one.copies[0] > self.reported)
        if others:
            self.reported = message.copies[0]
        earliest, latest = (copy, copy) if self.tagged else (0, len(message.copies) - 1)
        c.on_answer(now, message.copies, message.seen, earliest, latest, (self.size, self.answer), also, recent)
        if earliest == latest:
            self.answered_departure = max(self.answered_departure, message.copies[latest])
        self.say("answer", now, number, earliest, latest, self.answer, also, recent)
        for other in others:
            self.say("gone", now, other.number)
        self.state(now)
        for other in list(self.flying.values()):
            self.on_gap(now, other.number, len(other.copies))
            if other.number in self.flying:
                due = other.copies[-1] + c.threshold()
                if due > now:
                    self.later(due, "gap", other.number, len(other.copies))


def main():
    scripts, first = (int(word) for word in (sys.argv[1:] + ["16", "1"][len(sys.argv) - 1:])[:2])
    for number in range(first, first + scripts):
        Transfer(number, sys.stdout).run()


if __name__ == "__main__":
    main()
