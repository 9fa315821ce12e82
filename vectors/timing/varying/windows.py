#!/usr/bin/env python3
"""Writes transfers of `carob`: events of random paths, and the decisions that a controller must take.

    python3 windows.py [COUNT [FIRST]]

The controller is the second implementation, in whole microseconds and bytes. It was written from the text of its
specification alone (docs/algorithms.md#carob). On its first run it took the same decisions as the first implementation
in 74 of 1,000 transfers; the rules that differed were then corrected here and stated in the text (README.md).
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
    notify T ID CON DEPARTURE TIMER             a notification to an observer; DEPARTURE: of the next; TIMER: - for a NON
"""

import random
import sys
from heapq import heappop, heappush

SECOND = 1_000_000
ACK_TIMEOUT, ACK_MAX = 2 * SECOND, 3 * SECOND
SPAN = 45 * SECOND
CAP = 60 * SECOND
NON_INTERVAL, CONFIRM_EVERY = 3 * SECOND, 8
PERIOD = 60 * SECOND
MAX_RETRANSMIT = 4
REPAIRS = 2
SLOW_START, DELAY, COMPETE = "slow start", "delay", "compete"


def nearest(numerator, denominator):
    """Rounded to the nearest whole number, halves up."""
    return (2 * numerator + denominator) // (2 * denominator)


def is_near(time):
    """Round trips during which timers of RFC 7252 may expire."""
    return SECOND <= time < 3 * SECOND


def spread(values, value):
    """Bounds (least, greatest), extended by a value."""
    return (value, value) if values is None else (min(values[0], value), max(values[1], value))


class Round:
    """A round. An answer to a message that left after `answers` answers, or later, ends it."""

    def __init__(self, began=0, answers=0):
        self.began, self.answers = began, answers
        self.delivered = self.lost = 0
        self.bounds = None
        self.full = False


class Carob:
    """Controller of one peer. Variables and the numbers of rules are those of docs/algorithms.md#carob."""

    def __init__(self, fraction):
        self.fraction = fraction
        self.srtt = self.rttvar = self.r = None
        # This period and the one before.
        self.began, self.bounds, self.rates = None, [None, None], [0, 0]
        self.kept, self.slow = 0, False
        self.w = self.m = 0
        self.phase, self.limit, self.in_use = SLOW_START, None, False
        self.b, self.stepped, self.second = 0, 0, False
        self.silences, self.silent_at = 0, 0
        self.round, self.rounds, self.best = Round(), 0, [0] * 4
        self.hold = self.low = self.shared = self.caution = self.contention = 0
        self.usual = self.judged = self.judged_lost = 0
        self.high, self.swings = 0, [None, None]
        self.answers, self.reports = 0, False
        self.last_sent = self.last_answer = self.next = 0
        self.pace, self.unconfirmed, self.answered_departure = 1, 0, 0
        # Time, departure and bytes of the last certain answers.
        self.latest = []

    def draw(self, low, high):
        return low + ((high - low + 1) * self.fraction >> 32)

    # -- the path

    @property
    def base(self):
        return min(least for least, _ in filter(None, self.bounds))

    @property
    def top(self):
        return max(greatest for _, greatest in filter(None, self.bounds))

    @property
    def c(self):
        return max(self.rates)

    def pipe(self):
        """C x base"""
        return self.c * self.base // SECOND

    def add_rate(self, size, time):
        self.rates[0] = max(self.rates[0], size * SECOND // time)

    def sample(self, now, r):
        if self.srtt is None:
            self.srtt, self.rttvar, self.began = r, r // 4, now
        else:
            self.rttvar = nearest(3 * self.rttvar + abs(self.srtt - r), 4)
            self.srtt = nearest(7 * self.srtt + r, 8)
        self.r = r
        self.bounds[0] = spread(self.bounds[0], r)

    def rto(self):
        return max(self.srtt + max(4 * self.rttvar, self.srtt // 4, 1000), self.r + self.r // 4)

    def room(self):
        return max((self.w + self.m // 16) // self.m, 1) if self.w else 1

    def path(self, doublings):
        r = max(self.srtt, self.r)
        r += r // self.room()
        rto = max(self.rto(), r + r // 4)
        return min(rto << doublings, max(rto, CAP))

    def timeout_of_path(self):
        return self.path(self.b - 1 if self.second else self.b)

    def threshold(self):
        r = max(self.srtt, self.r)
        return max(nearest(9 * r, 8), self.srtt + 3 * self.rttvar, r + 1000)

    # -- timers

    def first_timer(self, now, running):
        idle = now - max(self.last_sent, self.last_answer)
        if running == 0:
            self.latest = []
            if self.srtt is not None:
                self.begin(now, idle)
        room = self.room()
        if running + 1 >= room and (room >= 2 or self.in_use):
            self.round.full = True
        self.in_use = self.in_use or self.round.full
        if self.in_use and self.contention < 4:
            return min(self.path(self.b), CAP)
        low = ACK_TIMEOUT
        if self.srtt is not None:
            low = self.rto() if self.top <= 4 * self.base else max(self.rto(), ACK_TIMEOUT)
        drawn = self.draw(low, nearest(3 * low, 2))
        timer = drawn << self.kept
        if self.kept and not self.slow:
            timer = min(timer, max(drawn, self.draw(ACK_TIMEOUT, ACK_MAX)))
        if self.srtt is not None and running == 0 and idle > 2 * ACK_TIMEOUT:
            timer = min(timer, self.draw(ACK_TIMEOUT, ACK_MAX))
        return min(timer, CAP)

    def begin(self, now, idle):
        pause = now - self.last_sent > 4 * self.rto()
        self.in_use = self.in_use and not pause and self.w < 2 * self.m
        self.contention = 0 if pause else self.contention
        if pause and self.phase != SLOW_START:
            self.phase, self.limit = SLOW_START, self.w
            self.w = min(self.w, 4 * self.m)
        self.kept = max(self.kept - idle // self.rto(), 0)

    def next_timer(self, timer, reason):
        if reason == "gap":
            timer = max(timer, self.rto())
        elif self.srtt is None:
            timer *= 2
        else:
            timer = max(2 * timer, self.rto() if self.in_use and self.contention < 4 else self.draw(ACK_TIMEOUT, ACK_MAX))
        return min(timer, CAP)

    # -- departures

    def paced(self):
        return self.reports or (self.in_use and self.rounds >= 2)

    def gap(self):
        gap = self.srtt * self.m // max(self.w, 1)
        if self.w >= self.m:
            gap = gap // 2 if self.phase == SLOW_START else gap * 4 // 5
        if self.c:
            gap = max(gap, nearest(5 * (self.m * SECOND // self.c), 6))
        return min(gap, max(self.srtt, CAP))

    def departure(self, now):
        return max(now, self.next) if self.paced() else now

    def on_sent(self, now, more):
        self.last_sent = now
        if more and self.rounds:
            self.round.full = True
        if self.paced():
            gap = self.gap()
            self.next = min(max(self.next, now - gap) + gap, now + max(self.srtt, gap))

    # -- notifications

    def interval(self):
        if self.srtt is None:
            return NON_INTERVAL
        interval = min(self.srtt, self.r) // self.pace
        return min(interval << self.kept, max(interval, CAP))

    def confirms(self, now):
        """Whether the notification that leaves now is a CON."""
        at_its_pace = now - self.next <= nearest(self.interval(), 4)
        old = self.srtt is not None and now - self.answered_departure > NON_INTERVAL * CONFIRM_EVERY
        return at_its_pace and (self.unconfirmed + 1 >= CONFIRM_EVERY or old)

    def on_notified(self, now, confirmable):
        if confirmable:
            self.unconfirmed = 0
            return self.on_sent(now, False)
        self.unconfirmed += 1
        self.next = now + self.interval()

    # -- losses

    def on_lost(self, now, reason, silent):
        self.round.lost += self.m
        if reason == "gap":
            return
        srtt = self.srtt or 0
        step = self.in_use and (self.b == 0 or now - self.stepped >= srtt)
        if step:
            self.b, self.stepped = min(self.b + 1, 12), now
        self.second = step and self.b >= 3
        self.pace = 1
        if silent and (self.silences == 0 or now - self.silent_at >= srtt):
            self.silences, self.silent_at = self.silences + 1, now
            if self.silences >= 2 and self.w > self.m:
                self.phase, self.limit = SLOW_START, max(self.w // 2, 2 * self.m)
                self.w = self.m

    def on_failed(self, retransmissions):
        self.kept = min(self.kept + retransmissions, 6)

    def on_late(self, now, since):
        if self.in_use and since > self.srtt:
            self.sample(now, since)

    def on_slow(self):
        self.w = max(self.w // 2, self.m)
        if self.phase == SLOW_START:
            self.phase = DELAY

    # -- answers

    def on_answer(self, now, copies, seen, earliest, latest, size, also=0, recent=0):
        self.answers += 1
        self.last_answer = now
        self.silences = 0
        sent = copies[latest]
        if earliest != latest:
            self.round.delivered += size[1] + also
            return self.on_ambiguous(now, now - sent, len(copies) - 1)
        spurious = (len(copies) - 1 - latest) * self.m
        self.round.lost = max(self.round.lost - spurious, 0)
        self.judged_lost = max(self.judged_lost - spurious, 0)
        r = max(now - sent, 1)
        self.answered_departure = max(self.answered_departure, sent)
        if self.srtt is not None:
            self.pace = 1 if r > self.base + self.base // 4 else min(2 * self.pace, CONFIRM_EVERY // 2)
        self.sample(now, r)
        self.kept, self.slow = 0, False
        self.b, self.second = 0, False
        if self.phase != COMPETE and now - self.began > PERIOD:
            self.began = now
            self.bounds = [(r, r), self.bounds[0]]
            self.rates = [0, self.rates[0]]
        size = max(size)
        self.m = max(size, self.m - self.m // 8)
        self.round.delivered += size + also
        self.round.bounds = spread(self.round.bounds, r)
        self.measure(now, sent, size, also, recent)
        if self.w == 0:
            self.w = (2 if is_near(r) else 6) * self.m
        if not self.in_use:
            self.w = max(self.w, 2 * self.m)
        if also and not self.reports:
            self.reports = True
            self.w = max(self.w, 2 * (size + also))
        if self.phase == SLOW_START:
            self.slow_start(r, size + also)
        if seen[latest] >= self.round.answers:
            self.rounds += 1
            self.end_round(now)
            self.round = Round(now, self.answers)

    def on_ambiguous(self, now, since, retransmissions):
        if self.in_use:
            if since > self.srtt:
                self.sample(now, since)
            return
        self.slow = self.slow or self.srtt is None or since > self.rto()
        self.kept = min(self.kept + retransmissions, 6)

    def measure(self, now, sent, size, also, recent):
        self.latest = (self.latest + [(now, sent, size + also)])[-3:]
        if also and len(self.latest) > 1:
            at, left, _ = self.latest[-2]
            if now > at and sent >= left:
                if recent > size and 4 * (now - at) >= 5 * (sent - left):
                    self.add_rate(size + recent, now - at)
                return
        if len(self.latest) == 3:
            at, left, _ = self.latest[0]
            apart = sent - left
            if now > at and 0 <= 2 * apart <= self.srtt and 4 * (now - at) >= 5 * apart:
                self.add_rate(self.latest[1][2] + self.latest[2][2], now - at)

    # -- the window

    def target(self):
        base = self.base
        share = base // 4
        if is_near(base + share):
            share = min(share, max(SECOND - base, share // 4))
        return max(share, self.m * SECOND // self.c if self.c else 0, 10_000)

    def t(self):
        target = self.target()
        if not self.c:
            return target
        half = target // 2
        return min(half + half * self.pipe() // max(self.w, self.m), nearest(5 * target, 2))

    def slow_start(self, r, size):
        m, full = self.m, self.round.full
        if full:
            self.w += size // 2 if self.reports else size
        if self.rounds == 0:
            return
        pipe = [self.pipe() + m] if self.c else []
        ends = ([] if self.reports else pipe) + ([] if self.limit is None else [self.limit])
        if ends and self.w >= min(ends):
            self.w = max(min(ends), 2 * m)
            self.phase = DELAY
        if full and r > self.base + (1 if self.reports else 2) * self.target():
            if self.reports:
                pipe = [5 * end // 4 for end in pipe]
                self.hold = 2
            self.w = max(min([self.w] + pipe), 2 * m)
            self.phase = DELAY

    def end_round(self, now):
        turn, m, base = self.round, self.m, self.base
        delivered, lost, (least, _) = turn.delivered, turn.lost, turn.bounds
        if not turn.full:
            if lost >= 2 * m and self.contention < 4:
                self.losses(turn)  # 7
            return
        self.caution = max(self.caution - 1, 0)  # 1
        time = max(now - turn.began, 1)
        self.best[self.rounds % 4] = delivered  # 2
        if self.rates[0] and delivered >= 2 * m:  # 3
            self.add_rate(delivered, time)
        rate = (delivered + lost) * SECOND // time
        unknown = not self.c and (base >= 3 * SECOND or least - base > self.target())  # 4
        below = self.phase != SLOW_START and rate < nearest(self.c, 2)
        self.shared = min(self.shared + 1, 8) if self.phase != COMPETE and (unknown or below) else 0
        if self.contention == 4:
            self.w = m
            return
        self.compete(rate, least)  # 5
        if self.phase == DELAY:  # 6
            self.delay(least, lost)
        elif self.phase == COMPETE and lost <= delivered // 32:
            self.w += m
        elif self.phase == COMPETE and self.hold == 0:
            self.w -= 5 * (self.w // 16)
            self.hold = 2
        if self.phase != SLOW_START:
            self.hold = max(self.hold - 1, 0)
        self.losses(turn)  # 7
        if self.rounds > 4:  # 8
            self.w = min(self.w, 2 * max(self.best) + 2 * m)
        self.w = max(self.w, m // 16 if self.in_use else 2 * m)

    def above(self, eighths):
        wide = self.top - self.base
        return wide > self.target() // 2 and self.srtt - self.base > eighths * (wide // 8)

    def compete(self, rate, least):
        base = self.base
        if self.rounds % 16 == 0:
            self.swings = [None, self.swings[0]]
        self.swings[0] = spread(self.swings[0], least)
        known = list(filter(None, self.swings))
        swing = max(high for _, high in known) - min(low for low, _ in known)
        self.high = self.high + 1 if least > 2 * base else 0
        if self.phase == COMPETE:
            if least < base * 3 // 2 or swing < base // 3:
                self.phase = DELAY
                if self.c:
                    self.w = min(self.w, max(self.pipe(), 2 * self.m))
        elif 32 * rate > self.c > 0 and self.high >= 3 and not is_near(least) and swing > base // 2:
            self.phase, self.hold = COMPETE, 0
            share = nearest(5 * (self.c * least // SECOND), 8)
            self.w = max(self.w, min(share, 2 * max(self.best)))

    def delay(self, least, lost):
        m, base, t = self.m, self.base, self.t()
        q = least - base
        telling = base < 3 * SECOND or self.rttvar < (self.top - base) // 4
        remains = self.caution > 0 and self.above(2) and telling
        if q > t or remains:
            self.low = 0
            one = remains or (self.caution > 0 and least > 2 * (base + t))
            floor = m if one else 2 * m
            if self.w <= floor:
                self.hold = 0
                if not lost:
                    self.w = min(self.w + (self.w // 8 if one else m // 2), floor)
            elif self.hold == 0:
                self.w = min(self.w, max(self.w * (base + t // 4) // least, self.w // 2, floor))
                self.hold = 2
        elif self.caution > 0:
            self.w += max(max(self.w, m) // 16, 1)
        elif self.w < 2 * m:
            self.w += 0 if lost else m // 4
        elif self.shared >= 2:
            self.w += max(self.w // 16, 1)
        else:
            self.low = self.low + 1 if q < t // 2 else 0
            self.w += max(self.w // 8, m) if self.low >= 3 else m

    def losses(self, turn):
        m = self.m
        self.judged += turn.delivered + turn.lost
        self.judged_lost += turn.lost
        judged, lost = self.judged, self.judged_lost
        if judged >= 16 * m:
            self.judged = self.judged_lost = 0
        elif lost < 2 * m:
            return
        long = self.above(4)
        share = 255 * lost // judged
        if judged >= 16 * m and not self.reports:
            varies = self.srtt // 2 > self.base and self.top // 4 > self.base
            own = max(self.w, m) * SECOND // self.c if self.c else 0
            most = 4 if self.srtt > self.base + own else 3
            self.contention = min(self.contention + 1 + (share > 51), most) if share > 26 and varies else 0
            if self.contention == 4:
                self.w, self.phase = m, DELAY
                return
        if not long and (self.c or self.rounds > 16):
            self.usual = (3 * self.usual + share + 3) // 4
        elif (long or self.shared >= 2) and share > 2 * self.usual + 16 and self.phase != COMPETE:
            self.w = max(self.w // 2, 0 if long and self.c else min(self.w, m))
            self.caution = 64 if long else self.caution
            self.phase, self.hold = DELAY, 2
            self.judged = self.judged_lost = 0


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


class Observer:
    """One observer, which gets states one after the other. A CON is answered or given up before the next leaves."""

    def __init__(self, number, out):
        self.draw = random.Random(f"observer {number}")
        draw = self.draw
        fraction = draw.choice([0, 1 << 31, draw.getrandbits(32), (1 << 32) - 1])
        self.out = out
        self.controller = Carob(fraction)
        self.size = draw.randrange(20, 100)
        self.base = 10 ** draw.uniform(4, 7.3)
        self.every = self.base * 10 ** draw.uniform(-1, 1)
        self.loss = draw.choice([0, 0.02, 0.1, 0.3])
        self.queue = draw.choice([0, 0.1, 0.4, 3])
        self.number = number
        self.left = 250
        print("script", f"observer-{number}", fraction, file=out)

    def say(self, *words):
        print(*words, file=self.out)

    def run(self):
        c, draw, now = self.controller, self.draw, 0
        while self.left > 0:
            self.left -= 1
            if draw.random() < 0.02:
                self.base *= draw.choice([0.1, 0.5, 2, 10])
            now = max(now + int(self.every * draw.uniform(0.5, 1.5)), c.next)
            confirmable = c.confirms(now)
            timer = max(c.first_timer(now, 0), 200_000) if confirmable else "-"
            c.on_notified(now, confirmable)
            self.say("notify", now, self.left, int(confirmable), max(now, c.next), timer)
            if confirmable:
                now = self.confirm(now, timer)

    def confirm(self, now, timer):
        """Retransmits a CON until it is answered or given up; returns when."""
        c, draw, copies, seen, arrival = self.controller, self.draw, [], [], None
        while True:
            seen.append(c.answers)
            copies.append(now)
            arrives = now + int(self.base * (1 + self.queue * draw.random()))
            if draw.random() >= self.loss:
                arrival = min(arrival or arrives, arrives)
            if arrival is not None and arrival <= now + timer:
                c.on_answer(arrival, copies, seen, 0, len(copies) - 1, (self.size, 4))
                self.say("answer", arrival, self.left, 0, len(copies) - 1, 4, 0, 0)
                return arrival
            now += timer
            c.on_lost(now, "timer", 1)
            self.say("lost", now, self.left, "timer", 1)
            retransmissions, age = len(copies) - 1, now - copies[0]
            if retransmissions >= 12 or retransmissions >= MAX_RETRANSMIT and age >= SPAN:
                self.say("fail", now, self.left)
                c.on_failed(retransmissions)
                return now
            before, timer = timer, max(c.next_timer(timer, "timer"), timer)
            if retransmissions + 1 >= MAX_RETRANSMIT and 3 * age < 2 * SPAN <= 2 * (age + timer):
                timer = min(max(SPAN - age - 1, before), timer)
            self.say("again", now, self.left, "timer", 1, 0, timer)
            c.on_sent(now, False)


def main():
    scripts, first = (int(word) for word in (sys.argv[1:] + ["16", "1"][len(sys.argv) - 1:])[:2])
    for number in range(first, first + scripts):
        Transfer(number, sys.stdout).run()
        Observer(number, sys.stdout).run()


if __name__ == "__main__":
    main()
