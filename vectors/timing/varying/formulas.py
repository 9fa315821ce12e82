#!/usr/bin/env python3
"""Writes the timing vectors of this folder that follow from formulas.

    python3 formulas.py            writes <controller>.toml for every controller
    python3 formulas.py --check    compares the files with what it would write (exit 1 if they differ)
    python3 formulas.py --table    prints the rules that the events of each file cover
    python3 formulas.py --search   finds events that cover all rules, for the table EVENTS

This is a second implementation of every controller, written from the formulas of its sources
(docs/algorithms.md, a section for each) and not from the Rust code.
Arithmetic is exact (fractions of a second; whole milliseconds where Californium uses them);
only the values of a vector are rounded, to the microsecond. Events come from a pseudo-random
generator, so that inputs change from step to step and every rule applies several times.
Inputs where less than a millisecond would decide are discarded.
"""

import copy
import math
import struct
import sys
from collections import Counter
from fractions import Fraction
from pathlib import Path

HERE = Path(__file__).parent
MILLI = Fraction(1, 1000)
MICRO = Fraction(1, 1_000_000)
# A NON notification in these vectors, in bytes; 1 B/s is always allowed (draft-03).
NOTIFICATION = 40


class Borderline(Exception):
    """Less than a millisecond would decide: these inputs test rounding, not rules."""


class DeadEnd(Exception):
    """These events lead nowhere: the vector would be too long, or every next event borderline."""


def less(a, b):
    """a < b, refused where they all but meet."""
    if 0 < abs(a - b) < MILLI:
        raise Borderline
    return a < b


def half_up(value):
    """To the nearest whole number, halves up, as Java's Math.round and the project do."""
    return math.floor(value + Fraction(1, 2))


def whole_micros(value):
    return half_up(value / MICRO) * MICRO


def whole_millis_after(value):
    return math.ceil(value / MILLI) * MILLI


def float32(value):
    """The nearest 32-bit float, for Californium's float arithmetic."""
    return struct.unpack("f", struct.pack("f", value))[0]


def number(text):
    return Fraction(text)


# ---------------------------------------------------------------------------------------------
# Common part of all controllers


class Controller:
    """Common frame: one exchange at a time, timers, answers, notifications."""

    name = None
    source = None
    # Limit of T_i for i >= 1, never below T_(i-1).
    cap = None
    max_retransmit = 4
    # The response identifies the transmission that it answers.
    knows_copies = False
    # Fractions of every range that is drawn from, one vector each.
    dithers = ("low", "0.37", "high")
    # Constants the vectors set.
    constants = {}
    # Ageing shows at queries of the RTO, and not only at messages.
    can_look = False
    # Maximum number of parallel exchanges in the events.
    running_blind = 1
    running_later = 1
    # Per cent of exchanges whose first copy is lost.
    losses = 27
    # Steps in all vectors of a file.
    length = 180
    # Minimum number of times that a rule applies in the vectors of a file.
    coverage = {"failed": 2, "n = 1": 3, "n = 2": 2}

    def __init__(self, dither, exact=True):
        self.dither = dither
        self.exact = exact
        self.sent = []
        self.timer = None
        self.first = None
        self.ended = Fraction(0)
        self.seen = Counter()
        self.free_at = None
        self.nons_in_a_row = 0

    # -- arithmetic

    def keep(self, value):
        """A stored value: exact, or rounded as an implementation in microseconds stores it."""
        return value if self.exact else whole_micros(value)

    def draw(self, low, high):
        return low + self.dither * (high - low)

    # -- an exchange

    @property
    def retransmissions(self):
        return len(self.sent) - 1

    def send(self, now, running=0):
        self.timer = self.first = self.keep(self.first_timer(now, running))
        self.sent = [now]
        self.nons_in_a_row = 0
        return self.timer

    def expire(self, now):
        before = self.timer
        wanted = self.next_timer()
        if self.cap is not None:
            limit = max(self.cap, before)
            if less(limit, wanted):
                self.seen["cap"] += 1
                wanted = limit
        self.timer = self.keep(wanted)
        self.sent.append(now)
        return self.timer

    def answer(self, now, copy_answered=None):
        n = self.retransmissions
        self.seen[f"n = {n}"] += 1
        if n > 0 and copy_answered is not None:
            self.seen["copy known"] += 1
        elif n > 0:
            self.seen["copy unknown"] += 1
        self.answered(now, n, now - self.sent[0], copy_answered)
        self.ended = now

    def fail(self, now):
        self.seen["failed"] += 1
        self.failed(now)
        self.ended = now

    def first_timer(self, now, running):
        raise NotImplementedError

    def next_timer(self):
        raise NotImplementedError

    def answered(self, now, n, since_original, copy_answered):
        """The exchange was answered after `n` retransmissions."""

    def failed(self, now):
        """Its last timer expired."""

    # -- queries

    def settled(self, now):
        """The overall RTO between exchanges; None if there is none, or ageing is due."""
        return None

    def look(self, now):
        """The overall RTO as a query shows it, which changes nothing."""
        return self.settled(now)

    def patience(self):
        """An idle time after which something would change."""
        return None

    # -- notifications

    def may_leave(self, asked):
        """When a notification asked for now may leave, and whether it must go as CON."""
        if self.free_at is None:
            return asked, False
        return max(asked, self.free_at), False

    def left(self, at, confirmable):
        """A notification has left."""
        wait = self.interval(at)
        self.free_at = None if wait is None else self.keep(at + wait)
        self.nons_in_a_row = 0 if confirmable else self.nons_in_a_row + 1

    def interval(self, at):
        """The wait after a notification that leaves at `at`; None if there is no rule."""
        return None

    def may_notify(self):
        """Whether the effect of a notification now does not depend on rounding."""
        return True


# ---------------------------------------------------------------------------------------------
# Default CoAP


class Default(Controller):
    """RFC 7252 4.2: a draw from [2, 3] s, doubled at every expiry, then forgotten."""

    name = "default"
    source = "RFC 7252 4.2; docs/algorithms.md#default"
    low, high = Fraction(2), Fraction(3)

    def first_timer(self, now, running):
        return self.draw(self.low, self.high)

    def next_timer(self):
        return 2 * self.timer


class ObserveStatic(Default):
    """RFC 7641 4.5.1: one NON notification in 3 s; timers as default CoAP."""

    name = "observe-static"
    source = "RFC 7641 4.5.1; docs/algorithms.md#observe-static"
    coverage = {"failed": 1, "n = 1": 2, "notified": 20, "paced": 8}

    def interval(self, at):
        return Fraction(3)


class DefaultFb1(Default):
    """Full Backoff 1: the last timer is the next first one, until a clean exchange."""

    name = "default-fb1"
    source = "Pesola 2020 5.1 (Jarvinen et al. 2018); docs/algorithms.md#default-fb1"
    cap = Fraction(60)
    coverage = {"failed": 2, "n = 1": 5, "n = 2": 3, "carried": 8, "cap": 1}

    def __init__(self, dither, exact=True):
        super().__init__(dither, exact)
        self.carry = None

    def first_timer(self, now, running):
        if self.carry is not None:
            self.seen["carried"] += 1
            return self.carry
        return super().first_timer(now, running)

    def answered(self, now, n, since_original, copy_answered):
        if n > 0:
            self.carry = self.timer
        else:
            self.clean()

    def clean(self):
        """An exchange without retransmission discards the retained timer."""
        self.carry = None

    def failed(self, now):
        self.carry = self.timer

    def settled(self, now):
        return self.carry


class DefaultFb2(DefaultFb1):
    """Full Backoff 2: an exchange without retransmission halves the retained timer, down to 2 s."""

    name = "default-fb2"
    coverage = {"failed": 2, "n = 1": 5, "n = 2": 3, "carried": 12, "halved": 8, "unset": 3}

    def clean(self):
        if self.carry is None:
            return
        half = self.keep(self.carry / 2)
        self.seen["halved"] += 1
        self.carry = half if less(self.low, half) else None
        if self.carry is None:
            self.seen["unset"] += 1


# ---------------------------------------------------------------------------------------------
# CoCoA


class Smoothed:
    """Mean and mean deviation of round-trip times (RFC 6298 2)."""

    def __init__(self, owner, alpha, beta, deviation_first=True):
        self.owner = owner
        self.alpha, self.beta = alpha, beta
        self.deviation_first = deviation_first
        self.mean = None
        self.deviation = None

    def start(self, r):
        self.mean = r
        self.deviation = self.owner.keep(r / 2)

    def sample(self, r):
        if self.mean is None:
            self.start(r)
        elif self.deviation_first:
            self.deviate(r)
            self.average(r)
        else:
            self.average(r)
            self.deviate(r)

    def average(self, r):
        self.mean = self.owner.keep((1 - self.alpha) * self.mean + self.alpha * r)

    def deviate(self, r):
        error = abs(self.mean - r)
        self.deviation = self.owner.keep((1 - self.beta) * self.deviation + self.beta * error)

    def estimate(self, r, k):
        return self.mean + k * self.deviation


class Cocoa03(Controller):
    """draft-ietf-core-cocoa-03; the base of the rest of the family."""

    name = "cocoa-03"
    source = "draft-ietf-core-cocoa-03; docs/algorithms.md#cocoa-03"
    cap = Fraction(32)
    can_look = True
    running_blind = 3

    initial = Fraction(2)
    alpha, beta = Fraction(1, 8), Fraction(1, 4)
    deviation_first = True
    k_strong, k_weak = 4, 1
    weight_strong, weight_weak = Fraction(1, 2), Fraction(1, 4)
    # Maximum number of retransmissions of a weak sample; None: any.
    weak_limit = 2
    # Backoff factors below, between and above two limits.
    small, middle, large = Fraction(3), Fraction(2), Fraction(3, 2)
    small_below, large_above = Fraction(1), Fraction(3)
    # An RTO above this ages downwards.
    ages_above = Fraction(3)
    # NON notifications keep a distance of one RTO, and every eighth is a CON.
    paces = True

    coverage = {
        "failed": 2, "strong": 12, "weak": 6, "n = 3": 1, "aged small": 4, "aged large": 4,
        "small": 3, "middle": 4, "large": 4, "cap": 1, "paced": 6, "confirmed": 1,
    }

    def __init__(self, dither, exact=True):
        super().__init__(dither, exact)
        self.strong = self.estimator()
        self.weak = self.estimator()
        self.rto = self.initial
        self.measured = False
        self.since = None
        self.base = None

    def estimator(self):
        return Smoothed(self, self.alpha, self.beta, self.deviation_first)

    # -- timers

    def first_timer(self, now, running):
        self.age_for(now, running)
        self.base = self.keep(self.rto if self.measured else self.blind(running))
        return self.dithered(self.base)

    def age_for(self, now, running):
        """Ageing at the next message, and only when nothing else runs."""
        if running == 0:
            self.age(now)
        elif self.ageing_due(now):
            raise Borderline

    def dithered(self, rto):
        return self.draw(rto, rto * 3 / 2)

    def blind(self, running):
        """Before any sample: 2 s for every exchange that runs, this one included."""
        return self.initial * (running + 1)

    def next_timer(self):
        return self.factor(self.timer) * self.timer

    def factor(self, rto):
        if less(rto, self.small_below):
            self.seen["small"] += 1
            return self.small
        if less(self.large_above, rto):
            self.seen["large"] += 1
            return self.large
        self.seen["middle"] += 1
        return self.middle

    # -- samples

    def answered(self, now, n, since_original, copy_answered):
        if n == 0:
            self.take_strong(now, since_original)
        elif self.weak_limit is None or n <= self.weak_limit:
            self.take_weak(now, since_original)

    def take_strong(self, now, r):
        self.seen["strong"] += 1
        self.strong.sample(r)
        self.mix(now, self.strong.estimate(r, self.k_strong), self.weight_strong)

    def take_weak(self, now, r):
        self.seen["weak"] += 1
        self.weak.sample(r)
        self.mix(now, self.weak.estimate(r, self.k_weak), self.weight_weak)

    def mix(self, now, estimate, weight):
        self.rto = self.keep(weight * estimate + (1 - weight) * self.rto)
        self.updated(now)

    def updated(self, now):
        self.measured = True
        self.since = now

    # -- ageing

    def age(self, now):
        if self.since is not None:
            self.rto, self.since = self.aged(self.rto, self.since, now, self.seen)

    def aged(self, rto, since, now, seen):
        """Every step at the moment its idle time runs out (draft-03: cumulative at next use)."""
        while True:
            if less(rto, Fraction(1)) and less(16 * rto, now - since):
                since += 16 * rto
                rto = self.keep(2 * rto)
                seen["aged small"] += 1
            elif less(self.ages_above, rto) and less(4 * rto, now - since):
                since += 4 * rto
                rto = self.keep(1 + rto / 2)
                seen["aged large"] += 1
            else:
                return rto, since

    def ageing_due(self, now):
        if self.since is None:
            return False
        seen = Counter()
        self.aged(self.rto, self.since, now, seen)
        return bool(seen)

    # -- queries

    def settled(self, now):
        if not self.measured or self.ageing_due(now):
            return None
        return self.rto

    def look(self, now):
        if not self.measured:
            return None
        return self.aged(self.rto, self.since, now, Counter())[0]

    def patience(self):
        if self.since is None:
            return None
        return self.rto * (16 if self.rto < 1 else 4)

    # -- notifications

    def may_leave(self, asked):
        leaves, _ = super().may_leave(asked)
        return leaves, self.paces and self.nons_in_a_row == 7

    def interval(self, at):
        if not self.paces:
            return None
        rto = self.aged(self.rto, self.since, at, Counter())[0] if self.measured else self.initial
        return min(self.spread(rto), Fraction(NOTIFICATION))

    def spread(self, rto):
        """The wait that an RTO makes: not dithered by draft-03."""
        return rto


class Cocoa001(Cocoa03):
    """draft-03 with 20 retransmissions."""

    name = "cocoa-001"
    source = "Pesola 2020 3.3 and 4.2; docs/algorithms.md#cocoa-001"
    max_retransmit = 20
    coverage = {**Cocoa03.coverage, "cap": 4, "failed": 0}


class FixedFactor:
    """The factor of an exchange is chosen once, by its first timer."""

    def first_timer(self, now, running):
        timer = super().first_timer(now, running)
        self.held = self.factor(self.decides(timer))
        return timer

    def decides(self, timer):
        """Dithering comes first."""
        return timer

    def next_timer(self):
        return self.held * self.timer


class AgesOnceWhenSent:
    """Ageing at the next message, one step, after which idle time counts from that message."""

    can_look = False

    def age(self, now):
        if self.since is None:
            return
        aged = self.one_step(now)
        if aged is not None:
            rule, self.rto = aged
            self.seen[rule] += 1
            self.since = self.renewed(now)

    def renewed(self, now):
        return now

    def one_step(self, now):
        """The rule in force now and its RTO, or None."""
        raise NotImplementedError

    def ageing_due(self, now):
        return self.since is not None and self.one_step(now) is not None

    def look(self, now):
        return self.settled(now)


class CocoaV0(AgesOnceWhenSent, Cocoa03):
    """Betzler et al. 2015, 2.2: the first CoCoA, with binary backoff."""

    name = "cocoa-v0"
    source = "Betzler et al. 2015, 2.2; docs/algorithms.md#cocoa-v0"
    cap = None
    alpha, beta = Fraction(1, 4), Fraction(1, 8)
    k_weak = 4
    weight_weak = Fraction(1, 2)
    weak_limit = None
    paces = False
    running_blind = 1
    coverage = {"failed": 2, "strong": 12, "weak": 8, "n = 3": 2, "aged small": 4}

    def blind(self, running):
        return self.initial

    def next_timer(self):
        return 2 * self.timer

    def one_step(self, now):
        if less(self.rto, Fraction(1)) and less(16 * self.rto, now - self.since):
            return "aged small", Fraction(1)
        return None


class CocoaPlus(FixedFactor, AgesOnceWhenSent, Cocoa03):
    """CoCoA+ (Betzler et al. 2015, 3)."""

    name = "cocoa-plus"
    source = "Betzler et al. 2015, 3; docs/algorithms.md#cocoa-plus"
    cap = None
    alpha, beta = Fraction(1, 4), Fraction(1, 8)
    weak_limit = 1
    large = Fraction(13, 10)
    paces = False
    running_blind = 1
    coverage = {
        "failed": 2, "strong": 12, "weak": 4, "n = 2": 2, "aged small": 4, "aged large": 4,
        "small": 5, "middle": 5, "large": 5,
    }

    def blind(self, running):
        return self.initial

    def one_step(self, now):
        idle = now - self.since
        if less(self.rto, Fraction(1)) and less(16 * self.rto, idle):
            return "aged small", Fraction(1)
        if less(Fraction(2), self.rto) and less(Fraction(30), idle):
            return "aged large", self.keep(1 + self.rto / 2)
        return None

    def patience(self):
        if self.since is None:
            return None
        return self.rto * 16 if self.rto < 1 else Fraction(30)


class Cocoa002(FixedFactor, Cocoa03):
    """CoCoA as in Betzler et al. 2016, 2.3."""

    name = "cocoa-002"
    source = "Betzler et al. 2016, 2.3; docs/algorithms.md#cocoa-002"
    cap = None
    alpha, beta = Fraction(1, 4), Fraction(1, 8)
    ages_above = Fraction(2)
    running_blind = 1
    coverage = {k: v for k, v in Cocoa03.coverage.items() if k != "cap"}

    def blind(self, running):
        return self.initial

    def spread(self, rto):
        """Betzler et al. 2016: the wait is drawn as a first timer is."""
        return self.dithered(rto)


class Cocoa004Text(CocoaPlus):
    """CoCoA+ with the mean updated first."""

    name = "cocoa-004-text"
    source = "Vallati et al., 3.1.2; docs/algorithms.md#cocoa-004-text"
    deviation_first = False


class Cocoa004AsRun(FixedFactor, AgesOnceWhenSent, Cocoa03):
    """Program behind the runs of Vallati et al. 2020, defects included."""

    name = "cocoa-004-as-run"
    source = "ECOAP/examples, ecoap_local_control_cocoa_cc.py; docs/algorithms.md#cocoa-004-as-run"
    cap = Fraction(60)
    max_retransmit = 3
    deviation_first = False
    weak_limit = None
    paces = False
    running_blind = 1
    coverage = {
        "failed": 2, "strong": 12, "weak": 6, "aged small": 4, "aged large": 4,
        "factor 3": 5, "factor 2": 2, "factor 1.3": 5, "estimate cap": 0,
    }

    def blind(self, running):
        return self.initial

    def decides(self, timer):
        """The undithered RTO."""
        return self.base

    def factor(self, rto):
        """The chained comparison that leaves 2 to exactly 1 s."""
        if less(rto, Fraction(1)):
            self.seen["factor 3"] += 1
            return Fraction(3)
        if rto == 1:
            self.seen["factor 2"] += 1
            return Fraction(2)
        self.seen["factor 1.3"] += 1
        return Fraction(13, 10)

    def answered(self, now, n, since_original, copy_answered):
        if self.strong.mean is None:
            # The very first sample starts both estimators and leaves the RTO.
            self.strong.start(since_original)
            self.weak.start(since_original)
            self.updated(now)
            return
        super().answered(now, n, since_original, copy_answered)

    def mix(self, now, estimate, weight):
        super().mix(now, min(estimate, Fraction(60)), weight)

    def one_step(self, now):
        """Polled at whole seconds: what held at the last one."""
        idle = math.floor(now) - self.since
        if less(self.rto, Fraction(1)) and less(16 * self.rto, idle):
            aged = "aged small", Fraction(1)
        elif less(Fraction(3), self.rto) and less(4 * self.rto, idle):
            # Meant was (2 + RTO) / 2.
            aged = "aged large", self.keep((2 + self.rto) / self.rto)
        else:
            return None
        if math.floor(now) < self.ended:
            raise Borderline  # an exchange was running at that whole second
        return aged

    def renewed(self, now):
        return Fraction(math.floor(now))


class CocoaContiki(FixedFactor, AgesOnceWhenSent, Cocoa03):
    """CoCoA of er-coap, defects included."""

    name = "cocoa-contiki"
    source = "Contiki er-coap CoCoA (Betzler); docs/algorithms.md#cocoa-contiki"
    cap = Fraction(60)
    weight_weak = Fraction(3, 4)
    weak_limit = None
    small = Fraction(5, 2)
    paces = False
    running_blind = 5
    # The draw leaves out the upper end.
    dithers = ("low", "0.37", "0.81")
    coverage = {
        "failed": 2, "strong": 12, "weak": 6, "n = 3": 1, "aged small": 4, "aged large": 6,
        "small": 4, "middle": 4, "large": 4, "estimator reset": 3,
    }

    def __init__(self, dither, exact=True):
        super().__init__(dither, exact)
        self.repeated = 0

    def blind(self, running):
        """Shifted left once per exchange that runs."""
        return min(self.initial * 2**running, Fraction(32))

    def decides(self, timer):
        return self.base

    def answered(self, now, n, since_original, copy_answered):
        super().answered(now, n, since_original, copy_answered)
        self.repeated += n
        if self.repeated > 3:
            self.strong = self.estimator()
            self.repeated = 0
            self.seen["estimator reset"] += 1

    def mix(self, now, estimate, weight):
        super().mix(now, estimate, weight)
        self.rto = min(self.rto, Fraction(60))

    def one_step(self, now):
        idle = now - self.since
        if less(self.rto, Fraction(1)) and less(16 * self.rto, idle):
            return "aged small", Fraction(1)
        if less(Fraction(3), self.rto) and less(4 * self.rto, idle):
            return "aged large", self.keep(1 + self.rto / 2)
        return None

    def renewed(self, now):
        """A step does not renew the timestamp, so the next message may take another."""
        return self.since


# ---------------------------------------------------------------------------------------------
# CoCoA's variants


class CocoaS(Cocoa03):
    """Strong estimator only."""

    name = "cocoa-s"
    source = "Pesola 2020 3.4; docs/algorithms.md#cocoa-s"
    weak_limit = 0
    coverage = {k: v for k, v in Cocoa03.coverage.items() if k != "weak"}


class CocoaStrong(Cocoa03):
    """No reaction to a single loss; reactions differ from the standard."""

    name = "cocoa-strong"
    source = "non-standard after Bhalerao et al. 2016 (Pesola 2020 3.4); docs/algorithms.md#cocoa-strong"
    coverage = {**Cocoa03.coverage, "weak": 4, "n = 1": 5}

    def next_timer(self):
        return self.timer if self.retransmissions == 0 else super().next_timer()

    def answered(self, now, n, since_original, copy_answered):
        if n != 1:
            super().answered(now, n, since_original, copy_answered)


class CocoaFast(Cocoa03):
    """Smaller constants throughout, all of them non-standard."""

    name = "cocoa-fast"
    source = "non-standard after Bhalerao et al. 2016 (Pesola 2020 3.4); docs/algorithms.md#cocoa-fast"
    cap = Fraction(16)
    initial = Fraction(1)
    small, middle, large = Fraction(2), Fraction(3, 2), Fraction(5, 4)
    small_below, large_above = Fraction(1, 2), Fraction(2)

    def may_notify(self):
        return self.measured


class Cocoa4State(Cocoa03):
    """A state that selects the factor of an exchange; the states are non-standard."""

    name = "cocoa-4state"
    source = "non-standard after Bhalerao et al. 2016; docs/algorithms.md#cocoa-4state"
    weak_limit = 0
    factors = (Fraction(13, 10), Fraction(3, 2), Fraction(2), Fraction(3))
    coverage = {
        "failed": 3, "strong": 12, "n = 1": 5, "n = 2": 3, "aged small": 4, "aged large": 4,
        "cap": 1, "state 0": 4, "state 1": 3, "state 2": 3, "state 3": 3,
        "paced": 6, "confirmed": 1,
    }

    def __init__(self, dither, exact=True):
        super().__init__(dither, exact)
        self.state = 2
        self.held = None

    def first_timer(self, now, running):
        self.held = self.factors[self.state]
        return super().first_timer(now, running)

    def next_timer(self):
        if self.retransmissions == 0:
            self.seen[f"state {self.state}"] += 1
        return self.held * self.timer

    def answered(self, now, n, since_original, copy_answered):
        super().answered(now, n, since_original, copy_answered)
        if n == 0:
            self.state = max(self.state - 1, 0)
        else:
            self.state = min(self.state + min(n, 2), 3)

    def failed(self, now):
        self.state = 3


class Eifel:
    """Eifel retransmission timer, second-hand, in place of RFC 6298."""

    gain = Fraction(1, 3)
    tick = Fraction(1, 128)

    def __init__(self, owner):
        self.owner = owner
        self.mean = None
        self.deviation = None

    def sample(self, r):
        keep = self.owner.keep
        if self.mean is None:
            self.mean, self.deviation = r, keep(r / 2)
            return
        d = r - self.mean
        if not less(d, 0):
            gain = self.gain**2 if less(d, self.deviation) else self.gain
            self.owner.seen["Eifel slow" if gain < self.gain else "Eifel fast"] += 1
            self.deviation = keep(self.deviation + gain * (d - self.deviation))
        else:
            self.owner.seen["Eifel below"] += 1
        self.mean = keep(self.mean + self.gain * d)

    def estimate(self, r, k):
        floor = r + 2 * self.tick
        if self.mean + k * self.deviation < floor:
            self.owner.seen["Eifel floor"] += 1
        return max(self.mean + k * self.deviation, floor)


class CocoaE(Cocoa03):
    """draft-03 with Eifel's arithmetic in both estimators (non-standard)."""

    name = "cocoa-e"
    source = "non-standard after CoCoA-E (Eifel timer); docs/algorithms.md#cocoa-e"
    coverage = {
        **Cocoa03.coverage,
        "Eifel slow": 3, "Eifel fast": 3, "Eifel below": 3, "Eifel floor": 1,
    }

    def estimator(self):
        return Eifel(self)


class LinuxEstimator:
    """Linux's estimator in exact arithmetic; `mean_first` as Californium, not as the kernel."""

    floor = Fraction(50, 1000)

    def __init__(self, owner, mean_first):
        self.owner = owner
        self.mean_first = mean_first
        self.mean = None
        self.deviation = None
        self.deviation_max = None
        self.variance = None

    def sample(self, r):
        keep, seen = self.owner.keep, self.owner.seen
        if self.mean is None:
            self.mean = r
            self.deviation = keep(r / 2)
            self.deviation_max = max(self.deviation, self.floor)
            self.variance = self.deviation_max
            return
        mean = keep(self.mean + (r - self.mean) / 8)
        against = mean if self.mean_first else self.mean
        self.mean = mean
        error = abs(r - against)
        if less(r, against - self.deviation):
            seen["far below the mean"] += 1
            self.deviation = keep(self.deviation * 31 / 32 + error / 32)
        else:
            self.deviation = keep(self.deviation * 3 / 4 + error / 4)
        if self.deviation > self.deviation_max:
            self.deviation_max = self.deviation
            self.variance = max(self.variance, self.deviation_max)
        else:
            seen["at the floor"] += 1
        if self.deviation_max < self.variance:
            seen["variance decays"] += 1
            self.variance = keep(self.variance * 3 / 4 + self.deviation_max / 4)
        self.deviation_max = self.floor

    def estimate(self):
        return self.mean + 4 * self.variance


class PCocoa(Cocoa03):
    """Retransmission count and the Linux estimator (non-standard)."""

    name = "pcocoa"
    source = "non-standard after Bolettieri et al.; docs/algorithms.md#pcocoa"
    knows_copies = True
    coverage = {
        "failed": 2, "strong": 12, "copy known": 6, "copy unknown": 4, "aged small": 4,
        "aged large": 4, "small": 3, "middle": 4, "large": 4, "cap": 1, "paced": 6,
        "confirmed": 1, "far below the mean": 3, "variance decays": 6, "at the floor": 2,
    }

    def estimator(self):
        return LinuxEstimator(self, mean_first=True)

    def answered(self, now, n, since_original, copy_answered):
        known = 0 if n == 0 else copy_answered
        if known is not None:
            self.seen["strong"] += 1
            self.strong.sample(now - self.sent[known])
            self.rto = self.keep(self.strong.estimate())
            self.updated(now)


class CocoaPlusPlus(CocoaS):
    """Delay gradient that decides between backoff and shrinking (non-standard)."""

    name = "cocoa-plus-plus"
    source = "non-standard after CoCoA++ (CAIA delay gradient); docs/algorithms.md#cocoa-plus-plus"
    dithers = ("low", "0.35", "0.7")
    scale = 3 * MILLI
    coverage = {
        "failed": 2, "strong": 20, "aged small": 4, "aged large": 4, "backs off": 8,
        "shrinks": 6, "not below the mean": 1, "drawn": 3, "paced": 6, "confirmed": 1,
    }

    def __init__(self, dither, exact=True):
        super().__init__(dither, exact)
        self.gradient = Fraction(0)
        self.previous = None
        self.samples = 0

    def take_strong(self, now, r):
        if self.previous is not None:
            change = r - self.previous
            self.gradient = self.keep(self.gradient + (change - self.gradient) / 8)
        self.previous = r
        self.samples += 1
        super().take_strong(now, r)

    def probability(self):
        if self.samples < 2:
            return 1.0
        if 0 < abs(self.gradient) < 50 * MICRO:
            raise Borderline
        if self.gradient <= 0:
            return 0.0
        probability = 1 - math.exp(-float(self.gradient / self.scale))
        if abs(probability - float(self.dither)) < 0.02:
            raise Borderline
        self.seen["drawn"] += 0.02 < probability < 0.98
        return probability

    def next_timer(self):
        if float(self.dither) < self.probability():
            self.seen["backs off"] += 1
            return self.timer * Fraction(142, 100)
        self.seen["shrinks"] += 1
        shrunk = self.timer * Fraction(7, 10)
        self.seen["not below the mean"] += shrunk < self.strong.mean
        return max(shrunk, self.strong.mean)


class CocoaFb1(Cocoa03):
    """CoCoA whose RTO becomes the last timer of an exchange with retransmissions."""

    name = "cocoa-fb1"
    source = "Pesola 2020 5.1 (Jarvinen et al. 2018); docs/algorithms.md#cocoa-fb1"
    coverage = {**Cocoa03.coverage, "carried": 8, "n = 3": 2}

    def __init__(self, dither, exact=True):
        super().__init__(dither, exact)
        self.carried = False

    def first_timer(self, now, running):
        if not self.carried:
            return super().first_timer(now, running)
        if running > 0:
            raise Borderline
        self.seen["carried"] += 1
        self.age_for(now, running)
        return self.rto

    def answered(self, now, n, since_original, copy_answered):
        if n > 0:
            self.retain(now)
        else:
            self.carried = False
        super().answered(now, n, since_original, copy_answered)

    def failed(self, now):
        self.retain(now)

    def retain(self, now):
        self.carried = True
        self.rto = self.timer
        self.since = now

    def settled(self, now):
        if self.carried and not self.ageing_due(now):
            return self.rto
        return super().settled(now)

    def look(self, now):
        if self.since is None:
            return None
        return self.aged(self.rto, self.since, now, Counter())[0]

    def may_notify(self):
        """No source states whether a retained RTO before any sample counts as blind."""
        return self.measured or not self.carried


class CocoaFb2(Cocoa03):
    """CoCoA with the last timer carried beside an RTO that goes on as in draft-03."""

    name = "cocoa-fb2"
    source = CocoaFb1.source
    can_look = False
    coverage = {**CocoaFb1.coverage, "carry aged": 3, "estimate above": 0}

    def __init__(self, dither, exact=True):
        super().__init__(dither, exact)
        self.carry = None
        self.carry_since = None

    def first_timer(self, now, running):
        if self.carry is None:
            return super().first_timer(now, running)
        if running > 0:
            raise Borderline
        self.seen["carried"] += 1
        self.age(now)
        seen = Counter()
        self.carry, self.carry_since = self.carry_aged(now, seen)
        self.seen["carry aged"] += seen["aged large"]
        return self.carry

    def carry_aged(self, now, seen):
        """The large rule only."""
        carry, since = self.carry, self.carry_since
        while less(Fraction(3), carry) and less(4 * carry, now - since):
            since += 4 * carry
            carry = self.keep(1 + carry / 2)
            seen["aged large"] += 1
        return carry, since

    def answered(self, now, n, since_original, copy_answered):
        super().answered(now, n, since_original, copy_answered)
        if n > 0:
            self.retain(now)
        else:
            self.carry = None

    def failed(self, now):
        self.retain(now)

    def retain(self, now):
        self.seen["estimate above"] += self.timer < self.rto
        self.carry = max(self.timer, self.rto)
        self.carry_since = now
        if self.since is not None:
            # The reading of this project: what retains a timer touches the RTO, too.
            self.since = now

    def settled(self, now):
        if self.carry is None:
            return super().settled(now)
        seen = Counter()
        self.carry_aged(now, seen)
        return None if seen else self.carry

    def look(self, now):
        return self.settled(now)

    def patience(self):
        return super().patience() if self.carry is None else self.carry * 4

    def may_notify(self):
        """No source states whether the retained value paces notifications."""
        return self.carry is None


class RttCount(Cocoa03):
    """Lee et al. 2016: a count in retransmissions makes every answer a sample."""

    name = "rtt-count"
    source = "Lee et al. 2016; docs/algorithms.md#rtt-count"
    knows_copies = True
    alpha, beta = Fraction(1, 4), Fraction(1, 8)
    coverage = {
        "failed": 2, "strong": 12, "copy known": 6, "copy unknown": 4, "aged small": 4,
        "aged large": 4, "small": 3, "middle": 4, "large": 4, "cap": 1, "paced": 6,
        "confirmed": 1,
    }

    def answered(self, now, n, since_original, copy_answered):
        known = 0 if n == 0 else copy_answered
        if known is not None:
            self.take_strong(now, now - self.sent[known])


class CocoaCalifornium(Controller):
    """CoCoA of Californium, in whole milliseconds.

    Ageing is a loop when a message is sent; its steps use up the idle time there was, after
    which idle time counts from that message.
    """

    name = "cocoa-californium"
    source = "Californium, congestioncontrol/Cocoa and Rto; docs/algorithms.md#cocoa-californium"
    constants = {"ageing_late": "false"}
    dithers = ("low", "high")
    coverage = {
        "failed": 2, "strong": 12, "weak": 6, "n = 3": 1, "aged small": 4, "aged large": 4,
        "small": 3, "middle": 4, "large": 4, "cap": 1, "paced": 6, "granularity": 2,
        "at least 500 ms": 1,
    }

    def __init__(self, dither, exact=True):
        super().__init__(dither, exact)
        self.strong = [None, None]
        self.weak = [None, None]
        self.rto = 2000
        self.since = Fraction(0)
        self.measured = False
        self.factor = None

    def get_rto(self):
        return min(self.rto, 32_000)

    def first_timer(self, now, running):
        self.rto, aged = self.aged(now, self.seen)
        if aged:
            self.since = now
        low = min(self.rto * max(1, running), 32_000)
        timer = math.floor(self.draw(low, math.floor(low * Fraction(3, 2))))
        self.seen["at least 500 ms"] += timer < 500
        timer = min(max(timer, 500), 60_000)
        self.factor = Fraction(3, 2) if timer > 3000 else 3 if timer < 1000 else 2
        self.seen["large" if timer > 3000 else "small" if timer < 1000 else "middle"] += 1
        return timer * MILLI

    def next_timer(self):
        millis = math.floor(self.factor * self.timer / MILLI)
        self.seen["cap"] += millis > 60_000
        return min(millis, 60_000) * MILLI

    def aged(self, now, seen):
        idle = math.floor((now - self.since) / MILLI)
        rto, aged = self.get_rto(), False
        while True:
            if rto < 1000 and idle > 16 * rto:
                idle -= 16 * rto
                rto *= 2
                seen["aged small"] += 1
            elif rto > 3000 and idle > 4 * rto:
                idle -= 4 * rto
                rto = 1000 + rto // 2
                seen["aged large"] += 1
            else:
                return (rto if aged else self.rto), aged
            aged = True

    def answered(self, now, n, since_original, copy_answered):
        r = max(math.floor(since_original / MILLI), 1)
        if n == 0:
            self.seen["strong"] += 1
            self.mix(now, self.estimate(self.strong, r, 4), Fraction(1, 2))
        elif n <= 2:
            self.seen["weak"] += 1
            self.mix(now, self.estimate(self.weak, r, 1), Fraction(1, 4))

    def estimate(self, state, r, k):
        mean, deviation = state
        if mean is None:
            state[:] = [r, r // 2]
        else:
            state[1] = half_up(Fraction(7, 8) * deviation + Fraction(1, 8) * abs(mean - r))
            state[0] = half_up(Fraction(3, 4) * mean + Fraction(1, 4) * r)
        self.seen["granularity"] += k * state[1] < 100
        return state[0] + max(100, k * state[1])

    def mix(self, now, estimate, weight):
        self.rto = half_up(weight * estimate + (1 - weight) * self.get_rto())
        self.since = now
        self.measured = True

    def settled(self, now):
        if not self.measured or self.aged(now, Counter())[1]:
            return None
        return self.get_rto() * MILLI

    def patience(self):
        return self.rto * MILLI * (16 if self.rto < 1000 else 4)

    def interval(self, at):
        if self.aged(at, Counter())[1]:
            raise Borderline  # ageing happens at requests; sources leave open whether at these
        return self.get_rto() * MILLI


# ---------------------------------------------------------------------------------------------
# FASOR


class Fasor(Controller):
    """Two timers and three orders of using them."""

    name = "fasor"
    source = "draft-ietf-core-fasor-02; docs/algorithms.md#fasor"
    upper = Fraction(60)
    length = 210
    losses = 36
    coverage = {
        "failed": 2, "n = 1": 6, "n = 2": 4, "n = 3": 2, "FAST expires": 4, "FSF expires": 4,
        "SF expires": 4, "SF again": 2, "slow first": 3, "2F first": 1, "cap": 1, "paced": 6,
    }

    def __init__(self, dither, exact=True):
        super().__init__(dither, exact)
        self.mean = None
        self.deviation = None
        self.fast = Fraction(2)
        self.slow = None
        self.mode = "FAST"
        self.series = None

    # -- timers

    def first_timer(self, now, running):
        mean = Fraction(2, 3) if self.mean is None else self.mean
        base = self.base()
        self.drawn = self.keep(self.draw(base + mean / 4, base + mean))
        self.series = self.timers()
        return self.limited(next(self.series))

    def base(self):
        return self.fast

    def timers(self):
        """T_0, T_1, ... of an exchange; every use of the fast timer doubles it."""
        return iter([self.entry(i) for i in range(12)])

    def entry(self, i):
        fast = self.drawn
        if self.mode == "FAST":
            return fast * 2**i
        if self.mode == "FSF":
            return (fast, max(self.slow, 2 * fast))[i] if i < 2 else fast * 2 ** (i - 1)
        return self.slow if i == 0 else fast * 2 ** (i - 1)

    def next_timer(self):
        if self.retransmissions == 0:
            self.seen[f"{self.mode} expires"] += 1
            if self.mode == "FSF":
                self.seen["slow first" if self.slow > 2 * self.drawn else "2F first"] += 1
        return self.limited(next(self.series))

    def limited(self, timer):
        self.seen["cap"] += timer > self.upper
        return min(timer, self.upper)

    # -- answers

    def answered(self, now, n, since_original, copy_answered):
        if n == 0:
            self.sample(since_original)
        else:
            self.ambiguous(since_original)

    def sample(self, r):
        """The first deviation is a quarter of RFC 6298's (F2: R / 2K)."""
        if self.mean is None:
            self.mean = r
            self.deviation = self.keep(r / 8)
        else:
            error = abs(self.mean - r)
            self.deviation = self.keep(Fraction(3, 4) * self.deviation + error / 4)
            self.mean = self.keep(Fraction(7, 8) * self.mean + r / 8)
        self.fast = self.mean + 4 * self.deviation
        self.mode = "FAST"

    def ambiguous(self, since_original):
        self.slow = self.keep(since_original * 3 / 2)
        self.seen["SF again"] += self.mode == "SF"
        self.mode = "FSF" if self.mode == "FAST" else "SF"

    def settled(self, now):
        return None if self.mean is None else self.fast

    def interval(self, at):
        """RFC 7641 4.5.1: one per round-trip time, or 3 s."""
        return Fraction(3) if self.mean is None else self.mean


class FasorOption(Fasor):
    """FASOR that learns the answered transmission from an option; the last sample is a floor."""

    name = "fasor-option"
    source = "draft-ietf-core-fasor-02, Retransmission Count Option; docs/algorithms.md#fasor-option"
    knows_copies = True
    coverage = {
        "failed": 2, "copy known": 8, "copy unknown": 8, "FAST expires": 4, "FSF expires": 2,
        "SF expires": 1, "paced": 6,
    }

    def __init__(self, dither, exact=True):
        super().__init__(dither, exact)
        self.last = None

    def base(self):
        """RFC 6298's arithmetic leaves the timer above the sample just taken, so the maximum
        is the timer itself; it is written as the draft has it."""
        return self.fast if self.last is None else max(self.fast, self.last)

    def answered(self, now, n, since_original, copy_answered):
        known = 0 if n == 0 else copy_answered
        if known is None:
            self.last = None
            self.ambiguous(since_original)
        else:
            self.last = now - self.sent[known]
            self.sample(self.last)

    def failed(self, now):
        self.last = None


class FasorToken(FasorOption):
    """The same count, in the Token."""

    name = "fasor-token"
    source = "draft-ietf-core-fasor-02, Alternatives; docs/algorithms.md#fasor-token"


# ---------------------------------------------------------------------------------------------
# Timers after TCP's


class Retaining(Controller):
    """No dithering, binary backoff, and the last timer retained until a valid sample."""

    cap = Fraction(60)
    dithers = ("low", "high")
    initial = Fraction(2)
    lowest_first = None
    highest_first = None
    coverage = {"failed": 2, "n = 0": 20, "n = 1": 4, "n = 2": 2, "retained": 10, "cap": 1}

    def __init__(self, dither, exact=True):
        super().__init__(dither, exact)
        self.estimate = None
        self.retained = None

    def first_timer(self, now, running):
        if self.retained is not None:
            self.seen["retained"] += 1
            return self.retained
        timer = self.initial if self.estimate is None else self.used()
        if self.lowest_first is not None:
            self.seen["lowest"] += timer < self.lowest_first
            timer = max(timer, self.lowest_first)
        return timer

    def used(self):
        """The estimate, limited from above."""
        if self.highest_first is None:
            return self.estimate
        return min(self.estimate, self.highest_first)

    def next_timer(self):
        return 2 * self.timer

    def answered(self, now, n, since_original, copy_answered):
        if self.valid(n):
            self.estimate = self.keep(self.sample(since_original))
            self.retained = None
        else:
            self.retained = self.timer

    def valid(self, n):
        """Karn: exactly one copy."""
        return n == 0

    def sample(self, r):
        raise NotImplementedError

    def failed(self, now):
        self.retained = self.timer

    def settled(self, now):
        if self.retained is not None:
            return self.retained
        return None if self.estimate is None else self.used()


class Rfc6298(Retaining):
    """RFC 6298 without its minimum of 1 s."""

    name = "rfc6298"
    source = "RFC 6298; docs/algorithms.md#rfc6298"

    def __init__(self, dither, exact=True):
        super().__init__(dither, exact)
        self.smoothed = Smoothed(self, Fraction(1, 8), Fraction(1, 4))

    def sample(self, r):
        self.smoothed.sample(r)
        return self.smoothed.estimate(r, 4)


class LinuxRtoKernel(Retaining):
    """Timer of the Linux kernel: the error is taken against the mean before."""

    name = "linux-rto-kernel"
    source = "Linux tcp_rtt_estimator; docs/algorithms.md#linux-rto-kernel"
    cap = Fraction(120)
    coverage = {
        **Retaining.coverage, "cap": 0,
        "far below the mean": 3, "variance decays": 8, "at the floor": 3,
    }

    def __init__(self, dither, exact=True):
        super().__init__(dither, exact)
        self.linux = LinuxEstimator(self, mean_first=False)

    def sample(self, r):
        self.linux.sample(r)
        return self.linux.estimate()


class CaliforniumFrame(Retaining):
    """Californium's limits: a first timer of at least 0.5 s, an estimate of at most 32 s."""

    lowest_first = Fraction(1, 2)
    highest_first = Fraction(32)
    coverage = {**Retaining.coverage, "lowest": 3}


class WholeMillis(CaliforniumFrame):
    """Californium's samples: whole milliseconds, at least one."""

    def sample(self, r):
        return self.sample_millis(max(math.floor(r / MILLI), 1)) * MILLI

    def sample_millis(self, r):
        raise NotImplementedError


class LinuxRto(WholeMillis):
    """Californium's version of the Linux timer, with its rounding."""

    name = "linux-rto"
    source = "Californium, congestioncontrol/LinuxRto; docs/algorithms.md#linux-rto"
    coverage = {
        **CaliforniumFrame.coverage,
        "far below the mean": 3, "variance decays": 8, "at the floor": 3,
    }

    def __init__(self, dither, exact=True):
        super().__init__(dither, exact)
        self.mean = None
        self.deviation = None
        self.deviation_max = None
        self.variance = None

    def sample_millis(self, r):
        if self.mean is None:
            self.mean = r
            self.deviation = r // 2
            self.variance = max(self.deviation, 50)
            self.deviation_max = self.variance
            return self.mean + 4 * self.variance
        self.mean += half_up(Fraction(r - self.mean, 8))
        error = abs(r - self.mean)
        if r < self.mean - self.deviation:
            self.seen["far below the mean"] += 1
            self.deviation = half_up(Fraction(31 * self.deviation + error, 32))
        else:
            self.deviation = half_up(Fraction(3 * self.deviation, 4)) + half_up(Fraction(error, 4))
        if self.deviation > self.deviation_max:
            self.deviation_max = self.deviation
            self.variance = max(self.variance, self.deviation_max)
        else:
            self.seen["at the floor"] += 1
        if self.deviation_max < self.variance:
            self.seen["variance decays"] += 1
            self.variance = half_up(Fraction(3 * self.variance + self.deviation_max, 4))
        self.deviation_max = 50
        return self.mean + 4 * self.variance


class PeakHopper(CaliforniumFrame):
    """Peak-Hopper with real division, the first sample being its own predecessor."""

    name = "peak-hopper"
    source = "Californium, congestioncontrol/PeakhopperRto; docs/algorithms.md#peak-hopper"
    decay = Fraction(23, 24)
    coverage = {**CaliforniumFrame.coverage, "slow decay": 4, "peak": 6, "margin": 3}

    def __init__(self, dither, exact=True):
        super().__init__(dither, exact)
        self.previous = None
        self.boost = Fraction(0)

    def sample(self, r):
        if self.previous is None:
            self.previous = r
            return r * Fraction(7, 4)
        delta = abs(r - self.previous) / r
        # Fine steps: a rounded boost is multiplied by seconds of round-trip time.
        self.boost = min(max(2 * delta, self.decay * self.boost), Fraction(1))
        peak = max(r, self.previous)
        self.previous = r
        candidates = {
            "slow decay": self.decay * self.estimate,
            "peak": (1 + self.boost) * peak,
            "margin": peak + 100 * MILLI,
        }
        chosen = max(candidates, key=candidates.get)
        self.seen[chosen] += 1
        return candidates[chosen]


class PeakHopperCal(WholeMillis):
    """Peak-Hopper as Californium computes it: integer division, no predecessor at first."""

    name = "peak-hopper-cal"
    source = PeakHopper.source
    decay = float32(1 - float32(1 / 24))
    coverage = {**CaliforniumFrame.coverage, "slow decay": 4, "peak": 6, "margin": 3}

    def __init__(self, dither, exact=True):
        super().__init__(dither, exact)
        self.previous = 0
        self.boost = 0.0
        self.history = [0, 0]

    def sample_millis(self, r):
        self.history = [self.history[1], r]
        if self.estimate is None:
            return math.floor(Fraction(7, 4) * r)
        delta = abs(r - self.previous) // r
        self.boost = min(max(float(2 * delta), float32(self.decay * self.boost)), 1.0)
        peak = max(r, self.previous)
        self.previous = r
        decayed = float32(self.decay * float32(int(self.used() / MILLI)))
        raised = float32(float32(1 + self.boost) * float32(peak))
        candidates = {
            "slow decay": math.floor(decayed),
            "peak": math.floor(raised),
            "margin": max(peak + 100, max(self.history) + 100),
        }
        chosen = max(candidates, key=candidates.get)
        self.seen[chosen] += 1
        return candidates[chosen]


class BasicRto(WholeMillis):
    """One and a half times the last round-trip time, weak samples included."""

    name = "basic-rto"
    source = "Californium, congestioncontrol/BasicRto; docs/algorithms.md#basic-rto"
    coverage = {**CaliforniumFrame.coverage, "n = 1": 6, "n = 2": 4, "n = 3": 2, "retained": 4}

    def valid(self, n):
        return n <= 2

    def sample_millis(self, r):
        return r + r // 2


# ---------------------------------------------------------------------------------------------
# The controller of this project


class Carob(Controller):
    """Single exchanges of `carob`: certain samples, one early retransmission, limits after idle."""

    name = "carob"
    source = "docs/adr/0033-carob-controller.md; docs/algorithms.md#carob"
    cap = Fraction(60)
    knows_copies = True
    length = 210
    losses = 36
    memory = Fraction(60)
    coverage = {
        "failed": 2, "copy known": 8, "copy unknown": 4, "kept": 4, "latest": 3,
        "deviation": 10, "least margin": 3, "forgotten": 2, "unsteady": 2,
        "idle limit": 2, "steps forgotten": 2, "early": 4, "slow": 2, "loss limit": 1,
    }

    def __init__(self, dither, exact=True):
        super().__init__(dither, exact)
        self.mean = None
        self.deviation = None
        self.latest = None
        self.least = [None, None]
        self.greatest = [Fraction(0), Fraction(0)]
        self.since = None
        self.kept = 0
        self.slow = False
        self.sent = [Fraction(0)]
        self.heard = Fraction(0)

    # -- timers

    def rto(self):
        margin = 4 * self.deviation
        least = max(self.mean / 4, Fraction(1, 1000))
        self.seen["least margin" if margin < least else "deviation"] += 1
        self.seen["latest"] += self.latest * 5 / 4 > self.mean + max(margin, least)
        return max(self.mean + max(margin, least), self.latest * 5 / 4)

    def first_timer(self, now, running):
        idle = now - max(self.sent[-1], self.heard)
        if self.mean is None:
            drawn = self.draw(Fraction(2), Fraction(3))
            return min(drawn * 2**self.kept, self.cap) if self.slow else drawn
        rto = self.keep(self.rto())
        if running == 0:
            # A step for each idle RTO, unless the last one is all but complete.
            steps = idle // rto
            less(idle, (steps + 1) * rto)
            less(steps * rto, idle)
            self.seen["steps forgotten"] += min(steps, self.kept) > 0
            self.kept = max(self.kept - steps, 0)
        base = min(value for value in self.least if value is not None)
        if less(4 * base, max(self.greatest)):
            self.seen["unsteady"] += rto < 2
            rto = max(rto, Fraction(2))
        drawn = self.keep(self.draw(rto, rto * 3 / 2))
        self.seen["kept"] += self.kept > 0
        timer = min(drawn * 2**self.kept, max(drawn, self.cap), self.cap)
        if self.kept > 0 and not self.slow:
            # Losses alone do not show a longer round trip.
            limit = max(drawn, self.draw(Fraction(2), Fraction(3)))
            self.seen["loss limit"] += less(limit, timer)
            timer = min(timer, limit)
        if running == 0 and less(Fraction(4), idle):
            limit = self.draw(Fraction(2), Fraction(3))
            self.seen["idle limit"] += less(limit, timer)
            timer = min(timer, limit)
        return timer

    def next_timer(self):
        if self.mean is None:
            return self.timer * 2
        blind = self.draw(Fraction(2), Fraction(3))
        self.seen["early"] += less(self.timer * 2, blind)
        return max(self.timer * 2, blind)

    # -- answers

    def answered(self, now, n, since_original, copy_answered):
        self.heard = now
        known = 0 if n == 0 else copy_answered
        if known is None:
            self.kept = min(self.kept + n, 6)
            if self.mean is None or less(self.rto(), now - self.sent[n]):
                self.seen["slow"] += 1
                self.slow = True
            return
        self.sample(now, now - self.sent[known])
        self.kept, self.slow = 0, False
        if less(self.memory, now - self.since):
            self.seen["forgotten"] += 1
            self.since = now
            self.least = [self.latest, self.least[0]]
            self.greatest = [self.latest, self.greatest[0]]

    def sample(self, now, r):
        if self.mean is None:
            self.mean = r
            self.deviation = self.keep(r / 4)
            self.least = [r, None]
            self.since = now
        else:
            error = abs(self.mean - r)
            self.deviation = self.keep(Fraction(3, 4) * self.deviation + error / 4)
            self.mean = self.keep(Fraction(7, 8) * self.mean + r / 8)
        self.latest = r
        self.least[0] = min(self.least[0], r)
        self.greatest[0] = max(self.greatest[0], r)

    def failed(self, now):
        self.kept = min(self.kept + self.retransmissions, 6)

    def settled(self, now):
        return None if self.mean is None else self.rto()

    def may_notify(self):
        """Notifications depend on the window, which these vectors do not open."""
        return False


CONTROLLERS = [
    Default, ObserveStatic, DefaultFb1, DefaultFb2,
    CocoaV0, CocoaPlus, Cocoa03, Cocoa001, Cocoa002, Cocoa004Text, Cocoa004AsRun,
    CocoaCalifornium, CocoaContiki,
    CocoaS, CocoaStrong, CocoaFast, Cocoa4State, CocoaE, PCocoa, CocoaPlusPlus,
    CocoaFb1, CocoaFb2, RttCount,
    Fasor, FasorOption, FasorToken,
    Rfc6298, LinuxRto, LinuxRtoKernel, PeakHopper, PeakHopperCal, BasicRto,
    Carob,
]


# The events of each file, as --search found them.
EVENTS = {
    "default": 0,
    "observe-static": 0,
    "default-fb1": 0,
    "default-fb2": 3,
    "cocoa-v0": 35,
    "cocoa-plus": 3,
    "cocoa-03": 0,
    "cocoa-001": 0,
    "cocoa-002": 1,
    "cocoa-004-text": 7,
    "cocoa-004-as-run": 7,
    "cocoa-californium": 5,
    "cocoa-contiki": 1,
    "cocoa-s": 8,
    "cocoa-strong": 35,
    "cocoa-fast": 55,
    "cocoa-4state": 1,
    "cocoa-e": 2,
    "pcocoa": 17,
    "cocoa-plus-plus": 39,
    "cocoa-fb1": 8,
    "cocoa-fb2": 14,
    "rtt-count": 1,
    "fasor": 0,
    "fasor-option": 2,
    "fasor-token": 6,
    "rfc6298": 0,
    "linux-rto": 0,
    "linux-rto-kernel": 1,
    "peak-hopper": 0,
    "peak-hopper-cal": 0,
    "basic-rto": 6,
    "carob": 2937,
}


# ---------------------------------------------------------------------------------------------
# Events


class Chance:
    """A linear congruential generator (Knuth's MMIX constants), so that files never change."""

    def __init__(self, seed):
        self.state = seed & (2**64 - 1)
        self.below(1)

    def below(self, n):
        self.state = (self.state * 6364136223846793005 + 1442695040888963407) % 2**64
        return (self.state >> 33) % n

    def one_in(self, n):
        return self.below(n) == 0

    def percent(self, p):
        return self.below(100) < p

    def between(self, low, high):
        """A fraction of the unit, in thousandths of the range."""
        return low + (high - low) * Fraction(self.below(1001), 1000)

    def pick(self, values):
        return values[self.below(len(values))]


class RoundTrips:
    """Round-trip times that drift, jump every few exchanges, and spike."""

    short = [number(x) for x in "0.02 0.03 0.05 0.08 0.12 0.2".split()]
    middling = [number(x) for x in "0.3 0.45 0.6 0.8 1.1 1.5".split()]
    long = [number(x) for x in "1.9 2.4 2.9 3.5 4.5 6 8".split()]

    def __init__(self, chance):
        self.chance = chance
        self.level = chance.pick(self.short)
        self.lasts = 5 + chance.below(5)
        self.turn = 0

    def delay(self):
        if self.lasts == 0:
            self.turn += 1
            self.level = self.chance.pick((self.short, self.long, self.middling)[self.turn % 3])
            self.lasts = 4 + self.chance.below(4)
        self.lasts -= 1
        self.level *= self.chance.between(Fraction(95, 100), Fraction(106, 100))
        delay = self.level * self.chance.between(Fraction(9, 10), Fraction(112, 100))
        if self.chance.one_in(14):
            delay *= 3
        return min(max(delay, 15 * MILLI), 9)


class Scenario:
    """A time line of events, with the values that a model of the controller expects at each."""

    def __init__(self, model, chance):
        self.model = model
        self.chance = chance
        self.path = RoundTrips(chance)
        self.now = Fraction(0)
        self.steps = []

    def fill(self, length):
        while len(self.steps) < length:
            self.attempt(self.event)
            if self.now > 4000:
                raise DeadEnd  # times of six decimals are read into 32 bits

    def attempt(self, event):
        """An event; other inputs if they turn out to be borderline."""
        for _ in range(60):
            path = self.path.level, self.path.lasts, self.path.turn
            before = copy.deepcopy((self.model, self.now))
            length = len(self.steps)
            try:
                event()
                return
            except Borderline:
                self.model, self.now = before
                self.path.level, self.path.lasts, self.path.turn = path
                del self.steps[length:]
        raise DeadEnd

    def event(self):
        self.idle()
        if len(self.steps) > 8 and self.chance.percent(8) and self.model.may_notify():
            self.notifications()
        else:
            self.exchange()

    def idle(self):
        """A gap: mostly short, sometimes long enough for ageing."""
        patience = self.model.patience()
        choice = self.chance.below(100)
        if choice < 55:
            gap = self.chance.between(0, Fraction(1, 2))
        elif choice < 68:
            gap = self.chance.between(Fraction(1, 2), 6)
        elif choice < 74 or patience is None:
            gap = self.chance.between(6, 70)
        else:
            gap = patience * self.chance.between(Fraction(108, 100), 4)
        start, end = self.now, whole_millis_after(self.now + gap)
        if self.model.can_look and gap > 3 and self.chance.percent(60):
            at = whole_millis_after(self.chance.between(start, end))
            self.look(min(at, end))
        self.now = end

    def look(self, at):
        rto = self.model.look(at)
        if rto is not None:
            self.steps.append({"wait": at, "rto": rto})

    # -- exchanges

    def exchange(self):
        running = 0
        most = self.model.running_blind if len(self.steps) < 6 else self.model.running_later
        if self.chance.percent(35 if len(self.steps) < 6 else 6):
            running = self.chance.below(most + 1)
        timer = self.model.send(self.now, running)
        step = {"send": self.now, "timer": timer}
        if running:
            step["running"] = running
        self.steps.append(step)
        self.finish()

    def finish(self):
        """The exchange that runs: copies are lost, one is answered or none."""
        model = self.model
        lost, delay = self.losses(), self.path.delay()
        if lost == 0 and delay > model.timer and self.chance.percent(60):
            # Round trips that grow no faster than the timer give samples that lift it.
            delay = model.timer * Fraction(9, 10)
        while True:
            n = model.retransmissions
            runs_out = whole_micros(model.sent[-1] + model.timer)
            if lost <= n:
                answered = whole_millis_after(model.sent[lost] + delay)
                if less(answered, runs_out - MILLI):
                    self.answer(answered, lost)
                    return
            if n == model.max_retransmit:
                self.fail(runs_out)
                return
            self.steps.append({"expire": runs_out, "timer": model.expire(runs_out)})

    def losses(self):
        """The number of copies that are lost before one arrives."""
        if self.chance.percent(4):
            return self.model.max_retransmit + 1
        lost = 0
        while lost < 6 and self.chance.percent(self.model.losses if lost == 0 else 45):
            lost += 1
        return lost

    def answer(self, at, index):
        step = {"answer": at}
        known = None
        if self.model.knows_copies and self.model.retransmissions > 0:
            if self.chance.percent(60):
                step["copy"] = known = index
            else:
                step["empty"] = True
        self.model.answer(at, known)
        self.ends(step, at)

    def fail(self, at):
        self.model.fail(at)
        self.ends({"fail": at}, at)

    def ends(self, step, at):
        rto = self.model.settled(at)
        if rto is not None:
            step["rto"] = rto
        self.steps.append(step)
        self.now = whole_millis_after(at)

    # -- notifications

    def notifications(self):
        """A burst, or a slow series."""
        slow = self.chance.percent(30)
        asked = self.now
        for _ in range(3 + self.chance.below(10)):
            left, confirmed = self.notification(asked)
            if confirmed:
                self.finish()
                asked = self.now
            elif slow:
                asked = whole_millis_after(left + self.chance.between(0, 3))
            self.now = max(self.now, whole_millis_after(left))
            if asked < self.now and self.chance.percent(30):
                asked = self.now

    def notification(self, asked):
        leaves, confirm = self.model.may_leave(asked)
        leaves = whole_micros(leaves)
        step = {"notify": asked, "departs": leaves}
        self.model.seen["notified"] += 1
        self.model.seen["paced"] += leaves > asked
        if isinstance(self.model, ObserveStatic) and self.chance.one_in(6):
            # A CON among them waits for the same interval and sets none.
            step["confirmable"] = True
        else:
            self.model.left(leaves, confirm)
        if confirm:
            self.model.seen["confirmed"] += 1
            step["confirm"] = True
            step["timer"] = self.model.send(leaves)
        self.steps.append(step)
        return leaves, confirm


# ---------------------------------------------------------------------------------------------
# Vectors


EXPECTED = ("timer", "rto", "departs")


def replay(model, steps):
    """The values of `model` for the inputs of `steps`."""
    for step in steps:
        said = {}
        if "send" in step:
            said["timer"] = model.send(step["send"], step.get("running", 0))
        elif "expire" in step:
            said["timer"] = model.expire(step["expire"])
        elif "answer" in step:
            model.answer(step["answer"], step.get("copy"))
            said["rto"] = model.settled(step["answer"])
        elif "fail" in step:
            model.fail(step["fail"])
            said["rto"] = model.settled(step["fail"])
        elif "wait" in step:
            said["rto"] = model.look(step["wait"])
        else:
            said["departs"], confirm = model.may_leave(step["notify"])
            assert confirm == step.get("confirm", False)
            if not step.get("confirmable"):
                model.left(step["departs"], confirm)
            if confirm:
                said["timer"] = model.send(step["departs"])
        yield step, said


def deviation(model, steps):
    """How far `model` strays from what `steps` expect."""
    worst = Fraction(0)
    for step, said in replay(model, steps):
        for key in EXPECTED:
            if key in step:
                worst = max(worst, abs(step[key] - said[key]))
    return worst


def fraction(dither):
    return Fraction({"low": "0", "high": "1"}.get(dither, dither))


def vectors(controller, attempt):
    """The vectors of one file: dither, steps; and the rules that they cover together."""
    made, seen = [], Counter()
    for index, dither in enumerate(controller.dithers):
        seed = sum(ord(c) * 31**i for i, c in enumerate(controller.name)) + 1000 * attempt + index
        scenario = Scenario(controller(fraction(dither)), Chance(seed))
        scenario.fill(controller.length // len(controller.dithers))
        made.append((dither, scenario.steps))
        seen += scenario.model.seen
    return made, seen


def covers(controller, seen):
    return all(seen[rule] >= least for rule, least in controller.coverage.items())


def search(controller):
    """The first events in which every rule comes into force as often as it should."""
    for attempt in range(5000):
        try:
            made, seen = vectors(controller, attempt)
        except DeadEnd:
            continue
        if covers(controller, seen):
            return attempt
    raise SystemExit(f"{controller.name}: no events found that cover all rules")


def tolerance(controller, made):
    """Microseconds a controller may stray that stores whole microseconds.

    Backoff multiplies the rounding of a first timer, so this is tried out: twice what storing
    rounded values makes of these very inputs, and at least 10.
    """
    worst = Fraction(0)
    for dither, steps in made:
        assert deviation(controller(fraction(dither)), steps) <= MICRO / 2
        worst = max(worst, deviation(controller(fraction(dither), exact=False), steps))
    assert worst < MILLI / 2, f"{controller.name}: rounding decides, {float(worst)}"
    return max(10, math.ceil(2 * worst / MICRO / 10) * 10)


def seconds(value):
    micros = half_up(value / MICRO)
    text = f"{micros // 1_000_000}.{micros % 1_000_000:06d}".rstrip("0").rstrip(".")
    return f'"{text} s"'


def line(step):
    parts = []
    for key, value in step.items():
        if value is True:
            parts.append(f"{key} = true")
        elif key in ("running", "copy"):
            parts.append(f"{key} = {value}")
        else:
            parts.append(f"{key} = {seconds(value)}")
    return "  { " + ", ".join(parts) + " },"


def document(controller, made):
    text = [
        f"# Varying inputs for `{controller.name}`, written by formulas.py; do not edit.",
        "# Format: crates/cc/tests/it/vectors.rs.",
        "",
        f"tolerance_us = {tolerance(controller, made)}",
    ]
    for dither, steps in made:
        text += [
            "",
            "[[vector]]",
            f'name = "{controller.name}, changing round trips, losses and pauses, dither {dither}"',
            f'source = "{controller.source}"',
            f'controller = "{controller.name}"',
        ]
        if controller.constants:
            pairs = ", ".join(f'{k} = "{v}"' for k, v in controller.constants.items())
            text.append(f"set = {{ {pairs} }}")
        text.append(f"dither = {dither}" if dither[0] == "0" else f'dither = "{dither}"')
        text += ["steps = [", *map(line, steps), "]"]
    return "\n".join(text) + "\n"


def main(arguments):
    names = [a for a in arguments if not a.startswith("--")]
    chosen = [c for c in CONTROLLERS if not names or c.name in names]
    stale = []
    for controller in chosen:
        if "--search" in arguments:
            print(f'    "{controller.name}": {search(controller)},', flush=True)
            continue
        made, seen = vectors(controller, EVENTS[controller.name])
        assert covers(controller, seen), f"{controller.name}: --search for other events"
        text = document(controller, made)
        path = HERE / f"{controller.name}.toml"
        if "--table" in arguments:
            counts = ", ".join(f"{k}: {v}" for k, v in sorted(seen.items()))
            print(f"{controller.name}: {sum(len(steps) for _, steps in made)} steps; {counts}")
        elif "--check" not in arguments:
            path.write_text(text)
        elif not path.exists() or path.read_text() != text:
            stale.append(path.name)
    if stale:
        print("not as formulas.py writes them:", ", ".join(stale))
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
